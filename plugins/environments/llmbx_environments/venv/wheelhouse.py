"""Collect the wheels of an environment, to build it on a machine without network access.

Files whose digest is in the lock are downloaded as they are and verified: a wheel that is built
here from a source archive would have another digest. uv cannot download wheels, so pip does.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmbx.api import Environment, InfraError, Progress, follow_process

from ..lock_file import Pin, files_of
from ..programs import output_of
from . import store, verified
from .failures import explain
from .pip_settings import NOT_FROM_HERE, configured_options, pip_environment
from .uv_tool import find_program

_PIPS = """
import ensurepip, importlib.util, pathlib
pip = importlib.util.find_spec("pip")
print(pathlib.Path(pip.origin).parent if pip else "")
bundled = pathlib.Path(ensurepip.__file__).parent / "_bundled"
folders = bundled, pathlib.Path("/usr/share/python-wheels")
print(*(wheel / "pip" for folder in folders for wheel in folder.glob("pip-*.whl")), sep="\\n")
"""
"""Program that prints the folder of an interpreter's pip, and the pips in the wheels of its
ensurepip, which run without being installed (Debian moves them)."""


Group = tuple[list[str], list[str | None]]
"""Requirements that are collected together, and the extra indexes to try in order (None: none)."""


def gather(environment: Environment, install: Path, folder: Path, progress: Progress) -> list[Path]:
    """Collect the files of all packages of the built `environment` in `folder`.

    They come from pip's cache, from `$LLMB_INSTALL/wheels` or from the index. A package without a
    digest in the lock is built from source if needed. Raises `InfraError` if a package is not
    available or its digest is wrong, or if the environment is not built.
    """
    build = store.find_complete(environment, install)
    if build is None:
        raise InfraError(f"environment {environment.name} is not built in {install}")
    title, packages = f"environment {build.paths.label}", build.marker.packages
    temporary, wheels = folder / ".tmp", install / "wheels"
    temporary.mkdir(parents=True)
    pip = pip_command(str(build.paths.python))
    env = pip_environment(os.environ, temporary)
    links = ["--find-links", str(wheels)] if wheels.is_dir() else []
    accepted = environment.replace(files=store.accepted_files(environment))
    progress(f"{title}: collecting the wheels of {len(packages)} packages")
    for pins, indexes in _groups(accepted, packages):
        argv = [*pip, *_arguments(accepted, pins, folder, temporary), *links]
        lines: list[str] = []
        for index in indexes:
            extra = ["--extra-index-url", index] if index else []
            if follow_process([*argv, *extra], env, temporary, lines.append) == 0:
                break
        else:
            reason = verified.mismatch(lines, accepted)
            reason = reason or explain("pip", lines, configured_options(env), wheels)
            raise InfraError(f"{title}: {reason}")
    return sorted(path for path in folder.iterdir() if path.is_file())


def pip_command(python: str) -> list[str]:
    """The argv prefix of a pip that runs in the interpreter `python`, which has none itself.

    In order of preference: the pip of the interpreter that the environment was created with, the
    wheel of its ensurepip, llmbx's own pip, one that uv downloads. Raises `InfraError` without any.
    """
    base = str(Path(python).resolve())
    pips = output_of([base, *NOT_FROM_HERE, "-c", _PIPS]).split("\n")
    if spec := importlib.util.find_spec("pip"):
        pips.append(str(Path(spec.origin or "").parent))
    commands = [[python, pip] for pip in pips if pip]
    if uv := find_program(os.environ):
        commands.append([uv, "tool", "run", "--python", python, "pip"])
    for command in commands:
        if output_of([*command, "--version"]):
            return command
    advice = "(`python -m ensurepip`, or `uv pip install pip`)"
    raise InfraError(f"no pip was found for {base}: install one into llmbx's environment {advice}")


def _arguments(
    environment: Environment, pins: Sequence[str], folder: Path, temporary: Path
) -> list[str]:
    """pip's arguments for `pins`, which all have or all lack a digest in the lock."""
    if not files_of(environment, pins[0]):
        return ["wheel", "--no-deps", "--wheel-dir", str(folder), *pins]
    file = temporary / "requirements.txt"
    file.write_text(verified.requirements_text(environment, pins), encoding="utf-8")
    return ["download", "--no-deps", "--dest", str(folder), *verified.OPTIONS, "-r", str(file)]


def _groups(environment: Environment, packages: dict[str, str]) -> Iterator[Group]:
    """The exact requirements in groups: with and without digest, and each with its own indexes.

    An extra index is used only for the packages that need it, and only if the default index does
    not have them.
    """
    variants = {Pin.of(pin)[0]: builds for pin, builds in environment.variants.items()}
    verified_pins, other_pins = [], []
    for name, version in packages.items():
        pin = f"{name}=={version}"
        if name in variants:
            yield [pin], list(dict.fromkeys(index for _, index in variants[name]))
        elif files_of(environment, pin):
            verified_pins.append(pin)
        else:
            other_pins.append(pin)
    for pins in (verified_pins, other_pins):
        if pins:
            yield pins, [None]
