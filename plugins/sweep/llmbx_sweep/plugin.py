"""The plugin `sweep`: the runs of a sweep, by its id or folder. Its verb is `sweep`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmbx import hookimpl

if TYPE_CHECKING:
    from llmbx.config.install import Install
    from llmbx.model import RunGroup


@hookimpl
def find_runs(install: Install, text: str) -> RunGroup | None:
    """The runs of the sweep with this id, a unique prefix of it, or this folder."""
    from .selection import find

    return find(install, text)
