"""Find and configure the pip that collects wheels, and give uv the settings of the user's pip."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from llmbx.api import InfraError

from .failures import SOURCES
from .uv_tool import Uv, find_program, require_program, uv_environment

_UNWANTED = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_DRY_RUN",
    "VIRTUAL_ENV",
)
_OLDEST: dict[tuple[int, ...], tuple[int, ...]] = {(): (22, 3), (3, 12): (23, 2), (3, 13): (24, 1)}
"""Minimum version of pip by Python version: `--python` was added in 22.3; 3.12 and 3.13 are from pip's changelog."""

_BUNDLED = """
import ensurepip, pathlib
folders = pathlib.Path(ensurepip.__file__).parent / "_bundled", pathlib.Path("/usr/share/python-wheels")
print(*(wheel for folder in folders for wheel in folder.glob("pip-*.whl")), sep="\\n")
"""
"""Program that prints the wheels of pip of an interpreter, which run without being installed. Debian moves them."""

_CONNECTION = ("cert", "trusted-host", "proxy")

NOT_FROM_HERE = ("-P",)
"""Option of Python 3.11 and newer: nothing is imported from the working folder, which may be a stranger's."""


def pip_command(venv_python: str) -> list[str]:
    """The argv prefix of a pip that works for the environment of `venv_python`, which contains no pip itself.

    In order of preference: llmbx's own pip, the pip of the interpreter that the environment was created with, the wheel
    that its ensurepip has, a pip that uv downloads. Raises `InfraError` if none is available.
    """
    needed = _oldest_pip(venv_python)
    if importlib.util.find_spec("pip") and _numbers(importlib.metadata.version("pip")) >= needed:
        return [sys.executable, *NOT_FROM_HERE, "-m", "pip", "--python", venv_python]
    base = str(Path(venv_python).resolve())
    uv = find_program(os.environ) or "uv"
    wheels = [
        [base, f"{wheel}/pip"]
        for wheel in _output([base, *NOT_FROM_HERE, "-c", _BUNDLED]).splitlines()
    ]
    for pip in (
        [base, *NOT_FROM_HERE, "-m", "pip"],
        *wheels,
        [uv, "tool", "run", "--python", base, "pip"],
    ):
        output = _output([*pip, "--version"]).split()
        if len(output) > 1 and _numbers(output[1]) >= needed:
            return [*pip, "--python", venv_python]
    raise InfraError(
        f"no pip >= {'.'.join(map(str, needed))} was found for {base}: install one into llmbx's environment "
        "(`python -m ensurepip`, or `uv pip install pip`)"
    )


def pip_environment(environ: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The environment variables for pip and uv: the user's, without those that would install packages elsewhere."""
    inherited = {name: value for name, value in environ.items() if name not in _UNWANTED}
    fixed = {
        "PIP_USER": "0",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_PROGRESS_BAR": "off",
    }
    return {
        **inherited,
        **fixed,
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(temporary),
    }


def configured_options(pip: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """The user's pip options for package sources and connections, by option name.

    As in pip, PIP_* variables take precedence over the section of a command in a configuration file, and that over
    [global]; `pip config list` sorts them by name. Values may contain credentials and must not be printed.
    """
    options: dict[str, str] = {}
    for line in sorted(_output([*pip, "config", "list"], env).splitlines(), key=_precedence):
        key, _, value = line.partition("=")
        option = key.strip().rpartition(".")[2]
        if option in (*SOURCES, *_CONNECTION):
            options[option] = value.strip().strip("'\"").replace("\\n", " ")
    return options


def _precedence(line: str) -> int:
    """The rank of a line of `pip config list`: [global], the section of a command, an environment variable."""
    return {"global": 0, ":env:": 2}.get(line.partition(".")[0], 1)


def configured_uv(
    environ: Mapping[str, str], python: str, temporary: Path, offline: bool = False
) -> Uv:
    """uv with the settings of the pip for `python`, and the variables `environ`; without pip, with its own settings.

    `temporary` is the folder for temporary files. Raises `UsageError` if uv is not installed.
    """
    program = require_program(environ)
    env = pip_environment(environ, temporary)
    options: dict[str, str] = {}
    with suppress(InfraError):
        options = configured_options(pip_command(python), env)
    return Uv(
        path=program,
        env=uv_environment(env, options, offline),
        configured=tuple(options),
        no_index=offline or "no-index" in options,
    )


def _oldest_pip(python: str) -> tuple[int, ...]:
    """The minimum version of pip for this interpreter. With `--python`, pip's code runs in that interpreter."""
    version = _numbers(
        _output([python, *NOT_FROM_HERE, "-c", "import platform; print(platform.python_version())"])
    )
    return max((pip for minor, pip in _OLDEST.items() if version >= minor), default=_OLDEST[()])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def _output(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """The standard output of `argv`; empty if it fails."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", env=env, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
