"""Entry points of all installed packages, scanned once for plugins and commands."""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from typing import Any


def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
    """Return the entry points of `group`, in the order in which packages are found."""
    return list(_scanned(tuple(sys.path)).select(group=group))


@functools.cache
def _scanned(path: tuple[str, ...]) -> Any:  # EntryPoints; Python 3.11 has another type with the same `select`
    return importlib.metadata.entry_points()
