"""The hooks of the history: what is known about all runs of an install, from an index."""

from __future__ import annotations

from typing import Any

from .. import hookimpl
from ..config.install import Install
from ..model import RunGroup
from ..record.folder import Run
from ..record.history import History, Selection
from ..record.names import tag_named

LLMBX_API = (2, 0)


class IndexedHistory(History):
    """The runs of installs, each of which has an index."""

    def select(self, install: Install, selection: Selection) -> list[Run]:
        """The selected runs."""
        from . import select

        return select(install, selection)

    def columns(self) -> dict[str, tuple[str, str]]:
        """Kind and unit of each column."""
        from .columns import COLUMNS
        from .units import UNITS

        return {name: (kind, UNITS[name][0]) for name, kind in COLUMNS.items()}

    def row(self, run: Run, plugins: Any) -> dict[str, Any]:
        """The columns of one run."""
        from .loaded import row_of

        return row_of(run, plugins)

    def tags(self, run: Run) -> tuple[str, ...]:
        """The tags in the run's folder, and those that this user gave to another user's run."""
        from .tags import tags_of

        return tags_of(run)

    def all_tags(self, install: Install) -> set[str]:
        """All tags in the index."""
        from . import all_tags

        return all_tags(install)


@hookimpl
def register_history() -> History:
    """The history that has an index."""
    return IndexedHistory()


@hookimpl
def find_runs(install: Install, text: str) -> RunGroup | None:
    """Find the newest run with the tag in `@NAME` or `tag:NAME`."""
    from . import tagged

    tag = tag_named(text)
    folder = tagged(install, tag) if tag is not None else None
    return RunGroup(folders=(folder,)) if folder is not None else None
