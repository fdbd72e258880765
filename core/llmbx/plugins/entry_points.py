"""Entry points of plugins and commands: of all installed packages, and of plugins that are not installed."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, cast

from ..errors import PluginError
from . import local_sources, packages
from .packages import EntryPoint

if TYPE_CHECKING:
    import importlib.metadata


def points(group: str) -> list[EntryPoint]:
    """Return the entry points of `group`: in the order in which packages are found, then those that are not installed.

    A project folder whose package is installed too is one plugin, not two.
    """
    packaged = installed(group)
    taken = {(point.name, point.value) for point in packaged}
    local = [point for path in local_sources.paths(os.environ) for point in _local(str(path)) if point.group == group]
    return [*packaged, *(point for point in local if (point.name, point.value) not in taken)]


def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
    """Return the entry points of `group` for plugins.

    They have `name`, `value`, `group`, `module`, `dist` (with `name` and `version`; None if it is not installed) and
    `load` as those of the standard library have.
    """
    return cast("list[importlib.metadata.EntryPoint]", points(group))


def installed(group: str) -> list[EntryPoint]:
    """Return the entry points of `group` of all installed packages."""
    return [point for point in _scanned(tuple(sys.path)) if point.group == group]


def load(point: EntryPoint) -> Any:
    """Import what an entry point refers to. Raises `PluginError` for an invalid reference."""
    if not isinstance(point, local_sources.Special) and point.REFERENCE.match(point.value) is None:
        raise PluginError(f"{local_sources.invalid(point.name, point.value)}")
    return point.load()


@functools.cache
def _scanned(path: tuple[str, ...]) -> list[EntryPoint]:
    return packages.entry_points(path)


@functools.cache
def _local(path: str) -> list[EntryPoint]:
    return local_sources.points(path)
