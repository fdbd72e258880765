"""The plugin `sweep`. It provides the command `sweep` and finds the runs of a sweep by its id or folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmbx.api import hookimpl

if TYPE_CHECKING:
    from llmbx.api import RunGroup
    from llmbx.api.verbs import Install


@hookimpl
def find_runs(install: Install, text: str) -> RunGroup | None:
    """Find the runs of the sweep with this id, unique prefix of an id, or folder."""
    from .selection import find

    return find(install, text)
