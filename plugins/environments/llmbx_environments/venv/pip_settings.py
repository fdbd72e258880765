"""The settings of the user's pip, from its configuration files and variables."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

SOURCES = ("index-url", "extra-index-url", "find-links", "no-index")
"""Options of pip for package sources."""

_CONNECTION = ("cert", "trusted-host", "proxy")

_ELSEWHERE = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_DRY_RUN",
    "VIRTUAL_ENV",
)
"""Variables that would install packages elsewhere, or import others."""

NOT_FROM_HERE = ("-P",)
"""Option of Python: nothing is imported from the working folder, which may be a stranger's."""


def pip_environment(environ: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The user's environment variables for pip and uv; `temporary` is for temporary files."""
    inherited = {name: value for name, value in environ.items() if name not in _ELSEWHERE}
    return {
        **inherited,
        "PIP_USER": "0",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_PROGRESS_BAR": "off",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(temporary),
    }


def configured_options(env: Mapping[str, str]) -> dict[str, str]:
    """The user's pip options for package sources and connections, by option name.

    As in pip, PIP_* variables take precedence over the section of a command, and that over
    [global]. Values may contain credentials and must not be printed.
    """
    common: dict[str, str] = {}
    of_commands: dict[str, str] = {}
    for path in _files(env):
        for section, values in _read(path):
            target = common if section == "global" else of_commands
            target.update(values)
    variables = {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in env.items()
        if name.startswith("PIP_")
    }
    options = {**common, **of_commands, **variables}
    return {name: options[name] for name in (*SOURCES, *_CONNECTION) if name in options}


def _files(env: Mapping[str, str]) -> Iterator[Path]:
    """The configuration files of pip, in the order in which they are read (pip's "Configuration").

    PIP_CONFIG_FILE replaces the user's own files; `os.devnull` stands for no file at all.
    """
    named = env.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    for folder in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
        yield Path(folder) / "pip/pip.conf"
    yield Path("/etc/pip.conf")
    if not Path(named).is_file():
        home = Path(env.get("HOME") or "~").expanduser()
        yield home / ".pip/pip.conf"
        yield Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "pip/pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if named:
        yield Path(named)


def _read(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The sections of a configuration file, with normalized names of options."""
    parser = configparser.RawConfigParser()
    with suppress(OSError, UnicodeError, configparser.Error):
        parser.read(path)
    for section in parser.sections():
        items = parser.items(section)
        yield section, {name.lower().replace("_", "-"): value for name, value in items}
