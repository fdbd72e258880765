"""Plugins that are not installed: single files and project folders, named by `--plugin PATH` or enabled by the user."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import PluginError, UsageError
from ..files import disk_errors, write_atomic
from ..phrases import did_you_mean
from .packages import EntryPoint

VARIABLE = "LLMBX_PLUGINS"
"""Paths of plugins, separated as in PATH, besides those that the user enabled. Processes of llmbx inherit it."""

LARGEST = 1 << 20
"""Largest part of the list of enabled plugins that is read, in bytes."""

GROUPS = ("llmbx", "llmbx.commands", "llmbx.options", "llmbx.entry")


class LocalPoint(EntryPoint):
    """An entry point of a file or project folder: `source`."""

    def __init__(self, name: str, value: str, group: str, source: str) -> None:
        super().__init__(name, value, group)
        self.source = source


class Special(LocalPoint):
    """An entry point whose `value` does not refer to a Python object."""


class FilePoint(Special):
    """The entry point of a plugin that is one file; `value` is its path."""

    def load(self) -> Any:
        """Import the file as a module of its own."""
        import importlib.util

        name = f"llmbx_file_{self.name}"
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, self.value)
        if spec is None or spec.loader is None:
            raise PluginError(f"{self.value} is not a Python file")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


class MissingPoint(Special):
    """Stands for a path without a plugin; `value` says why."""

    def load(self) -> Any:
        """Raise `PluginError` with the reason."""
        raise PluginError(self.value)


def is_path(text: str) -> bool:
    """Whether the value of `--plugin` is a path, not the name of a plugin."""
    return os.sep in text or text.endswith(".py") or text in (".", "..")


def from_arguments(arguments: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The value of `VARIABLE` with the paths of `--plugin PATH` added; None if the arguments name none.

    The options of a plugin exist only when it is loaded, so these paths are read before the command line is.
    """
    pairs = zip(arguments, [*arguments[1:], ""], strict=False)
    values = [
        argument.partition("=")[2] or after for argument, after in pairs if argument.partition("=")[0] == "--plugin"
    ]
    sources = [full_path(text) for text in values if is_path(text)]
    return os.pathsep.join(dict.fromkeys([*sources, *_named(environ)])) if sources else None


def full_path(path: Path | str) -> str:
    """The one spelling of a path by which plugins are compared; links stay, as their names may be the plugin's."""
    return os.path.abspath(path)  # noqa: PTH100 (`absolute` keeps `..`)


def enabled_file(environ: Mapping[str, str]) -> Path:
    """The user's list of enabled plugins, one path in a line."""
    base = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "llmbx" / "plugins.txt"


def enabled(environ: Mapping[str, str]) -> list[str]:
    """The paths of the plugins that the user enabled; none if another user can have written the list.

    Raises `UsageError` if the list is the user's own.
    """
    from ..config.trusted import read_trusted

    try:
        file = read_trusted(enabled_file(environ), LARGEST)
        lines = (file.content or b"").decode().splitlines()
    except (RuntimeError, UnicodeDecodeError):  # no home folder
        return []
    if file.note:
        print(f"llmbx: note: {file.note}", file=sys.stderr)
    return [line for line in lines if line.strip() and not line.startswith("#")]


def enable(path: Path) -> str:
    """Add a plugin to the user's list; return a line that says so. Raises `UsageError` if there is none at the path."""
    full = full_path(path)
    names = ", ".join(point.name for point in find(Path(full)))
    listed = enabled(os.environ)
    if full not in listed:
        _write([*listed, full])
    return f"enabled {names} ({full}) in {enabled_file(os.environ)}"


def disable(path: Path) -> str:
    """Remove a plugin from the user's list; return a line that says so. Raises `UsageError` if it is not there."""
    full, listed = full_path(path), enabled(os.environ)
    if full not in listed:
        raise UsageError(f"{path} is not enabled{did_you_mean(full, listed)}")
    _write([kept for kept in listed if kept != full])
    return f"disabled {full}"


def _write(listed: Sequence[str]) -> None:
    file = enabled_file(os.environ)
    with disk_errors(str(file)):
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_atomic(file, "".join(f"{path}\n" for path in listed).encode(), mode=0o644)


def paths(environ: Mapping[str, str]) -> list[str]:
    """The paths of all plugins that are not installed."""
    return [*dict.fromkeys(map(full_path, [*_named(environ), *enabled(environ)]))]


def points(path: str) -> list[EntryPoint]:
    """The entry points of a file or project folder; a `MissingPoint` if it has none."""
    try:
        return [*find(Path(path))]
    except UsageError as error:
        return [_point(MissingPoint, Path(path).stem, str(error), GROUPS[0], path)]


def find(path: Path) -> Iterator[LocalPoint]:
    """Yield the entry points of a file or project folder. Raises `UsageError` if it has none.

    The folder's `src`, or else the folder itself, is added to `sys.path`.
    """
    try:
        path.stat()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if path.is_dir():
        yield from _of_project(path)
    elif path.suffix == ".py" and path.is_file():
        name = re.sub(r"\W+", "_", path.stem).strip("_").lower()
        yield _point(FilePoint, name, str(path), GROUPS[0], str(path))
    else:
        raise UsageError(f"{path}: expected a Python file or a project folder")


def _of_project(folder: Path) -> Iterator[LocalPoint]:
    from ..toml_file import parse_toml

    file = folder / "pyproject.toml"
    if not file.is_file():
        raise UsageError(f"{folder}: no pyproject.toml in this folder")
    project = parse_toml(file).get("project", {})
    groups = project.get("entry-points", {}) if isinstance(project, dict) else {}
    tables = {
        group: groups[group] for group in GROUPS if isinstance(groups, dict) and isinstance(groups.get(group), dict)
    }
    if not any(tables.values()):
        raise UsageError(f'{file}: expected a table [project.entry-points.llmbx] with NAME = "MODULE"')
    source = str(folder / "src" if (folder / "src").is_dir() else folder)
    if source not in sys.path:
        sys.path.append(source)
    for group, members in tables.items():
        for name, value in members.items():
            valid = LocalPoint.REFERENCE.match(str(value)) is not None
            text = str(value) if valid else f"{file}: {invalid(name, value)}"
            yield _point(LocalPoint if valid else MissingPoint, str(name), text, group, str(folder))


def invalid(name: object, value: object) -> str:
    """Describe an entry point whose value is not a reference."""
    return f"the entry point {name} = {str(value)!r} is not a reference, expected MODULE or MODULE:ATTRIBUTE"


def _named(environ: Mapping[str, str]) -> list[str]:
    return [text for text in environ.get(VARIABLE, "").split(os.pathsep) if text]


def _point(kind: type[LocalPoint], name: str, value: str, group: str, source: str) -> LocalPoint:
    return kind(name=name, value=value, group=group, source=source)
