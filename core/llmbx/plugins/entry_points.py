"""Entry points of plugins and commands: of all installed packages, and of plugins that are not installed."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
from typing import Any

from ..errors import PluginError
from . import local_sources


def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
    """Return the entry points of `group`: in the order in which packages are found, then those that are not installed.

    A project folder whose package is installed too is one plugin, not two.
    """
    packaged = installed(group)
    taken = {(point.name, point.value) for point in packaged}
    local = [point for path in local_sources.paths(os.environ) for point in _local(str(path)) if point.group == group]
    return [*packaged, *(point for point in local if (point.name, point.value) not in taken)]


def installed(group: str) -> list[importlib.metadata.EntryPoint]:
    """Return the entry points of `group` of all installed packages."""
    return list(_scanned(tuple(sys.path)).select(group=group))


def load(point: importlib.metadata.EntryPoint) -> Any:
    """Import what an entry point refers to. Raises `PluginError` for an invalid reference."""
    if not isinstance(point, local_sources.Special) and point.pattern.match(point.value) is None:
        raise PluginError(f"{local_sources.invalid(point.name, point.value)}")
    return point.load()


@functools.cache
def _scanned(path: tuple[str, ...]) -> Any:  # EntryPoints; Python 3.11 has another type with the same `select`
    return importlib.metadata.entry_points()


@functools.cache
def _local(path: str) -> list[importlib.metadata.EntryPoint]:
    return local_sources.points(path)
