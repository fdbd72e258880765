"""The hooks of the history: what is known about all runs of an install, from an index."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from llmbx.api import RunGroup, hookimpl
from llmbx.api.verbs import History, Install, Run, Selection, tag_named

LLMBX_API = (3, 0)


class IndexedHistory(History):
    """The runs of installs, each of which has an index."""

    def select(self, install: Install, selection: Selection) -> list[Run]:
        """The selected runs."""
        from .runs import select

        return select(install, selection)

    def columns(self) -> dict[str, tuple[str, str]]:
        """Kind and unit of each column."""
        from .columns import COLUMNS

        return {name: (column.kind, column.unit) for name, column in COLUMNS.items()}

    def row(self, run: Run, plugins: Any) -> dict[str, Any]:
        """The columns of one run."""
        from .loaded import row_of

        return row_of(run, plugins)

    def earlier_repeats(
        self, install: Install, run: Run, plugins: Any, compared: Collection[str]
    ) -> list[list[float]]:
        """The means of earlier repeats."""
        from .repeats import earlier_repeats

        return earlier_repeats(install, run, plugins, compared)

    def tags(self, run: Run) -> tuple[str, ...]:
        """The tags in the run's folder, and those that this user gave to another user's run."""
        from .tags import tags_of

        return tags_of(run)

    def all_tags(self, install: Install) -> set[str]:
        """All tags in the index."""
        from .runs import all_tags

        return all_tags(install)


@hookimpl
def register_history() -> History:
    """The history that has an index."""
    return IndexedHistory()


@hookimpl
def find_runs(install: Install, text: str) -> RunGroup | None:
    """Find the newest run with the tag in `@NAME` or `tag:NAME`."""
    from .runs import tagged

    tag = tag_named(text)
    folder = tagged(install, tag) if tag is not None else None
    return RunGroup(folders=(folder,)) if folder is not None else None
