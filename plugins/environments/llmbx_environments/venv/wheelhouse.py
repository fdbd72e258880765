"""Collect the wheels of an environment, to build it on a machine without network access.

Files whose digest is in the lock are downloaded as they are and verified: a wheel that is built here from a source
archive would have another digest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Environment, InfraError, Progress, follow_process, split_pin

from . import store, verified
from .failures import explain
from .interpreters import preference
from .pip_tool import configured_options, pip_command, pip_environment


def gather(environment: Environment, install: Path, folder: Path, progress: Progress) -> list[Path]:
    """Collect the files of all packages of the built `environment`, in the installed versions, in `folder`.

    They come from pip's cache, from `$LLMB_INSTALL/wheels` or from the index. A package without a digest in the lock is
    built from source if needed. Raises `InfraError` if a package is not available or its digest is wrong, or if the
    environment is not built.
    """
    paths, marker = _finished(environment, install)
    temporary = folder / ".tmp"
    temporary.mkdir(parents=True)
    base = pip_command(str(paths.python))
    env, own = pip_environment(os.environ, temporary), install / "wheels"
    links = ["--find-links", str(own)] if own.is_dir() else []
    known = environment.replace(files=store.accepted_files(environment))
    progress(f"environment {paths.label}: collecting the wheels of {len(marker.packages)} packages")
    for pins, indexes in _sources(known, marker):
        lines: list[str] = []
        pip = [*base, *_command(known, pins, folder, temporary), *links]
        # An extra index is used only for the packages that need it, and only if the default index does not have them.
        extras = [["--extra-index-url", index] if index else [] for index in indexes]
        if all(
            follow_process([*pip, *extra], env, temporary, lines.append) != 0 for extra in extras
        ):
            why = verified.mismatch(lines, known) or explain(
                "pip", lines, configured_options(base, env), own
            )
            raise InfraError(f"environment {paths.label}: {why}")
    return sorted(path for path in folder.iterdir() if path.is_file())


def _command(known: Environment, pins: Sequence[str], folder: Path, temporary: Path) -> list[str]:
    """pip's arguments that put the files of `pins`, all with or all without a digest in the lock, in `folder`."""
    if not known.files_of(pins[0]):
        return ["wheel", "--no-deps", "--wheel-dir", str(folder), *pins]
    listed = temporary / "requirements.txt"
    listed.write_text(verified.requirements_text(known, pins), encoding="utf-8")
    return ["download", "--no-deps", "--dest", str(folder), *verified.OPTIONS, "-r", str(listed)]


def _sources(
    environment: Environment, marker: store.Marker
) -> list[tuple[list[str], list[str | None]]]:
    """Exact requirements that are collected together, with the extra indexes to try in order (None: no extra index).

    Requirements with and without a digest are in different groups.
    """
    variants = {
        split_pin(requirement)[0]: builds for requirement, builds in environment.variants.items()
    }
    pins = {name: f"{name}=={version}" for name, version in marker.packages.items()}
    plain = [pin for name, pin in pins.items() if name not in variants]
    covered = [pin for pin in plain if environment.files_of(pin)]
    others = [pin for pin in plain if pin not in covered]
    special = [
        ([pins[name]], list(dict.fromkeys(index for _, index in builds)))
        for name, builds in variants.items()
        if name in pins
    ]
    usual: list[tuple[list[str], list[str | None]]] = [
        (group, [None]) for group in (covered, others) if group
    ]
    return [*usual, *special]


def _finished(
    environment: Environment, install: Path
) -> tuple[store.EnvironmentPaths, store.Marker]:
    for minor in preference(environment.pythons):
        paths = store.environment_paths(environment, install, minor)
        if marker := store.read_marker(paths):
            return paths, marker
    raise InfraError(f"environment {environment.name} is not built in {install}")
