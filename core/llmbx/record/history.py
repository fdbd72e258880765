"""The runs of an install as a whole: the interface of the plugin that remembers them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..model import Scalar, Value
from .folder import Run

if TYPE_CHECKING:
    from ..config.install import Install

ALL = "all"
"""Selects the runs of all users."""

MISSING = "no installed plugin keeps a history of runs, which this needs"


class Selection(Value, frozen=True):
    """Which runs to select: the filters of `llmbx jobs`.

    `equal` maps columns to their accepted values (any of them), and all of `tags` must be present. `since` and `until`
    are epoch seconds, or a date or an age as the command takes them; `where` is a condition (docs/history.md). `user`
    is the name of a user, "all", or None for this user. `sort` is a comma-separated list of columns; a leading `-`
    sorts in descending order, and missing values come last. `limit` is the maximum number of runs.
    """

    equal: dict[str, tuple[Scalar, ...]] = {}
    tags: tuple[str, ...] = ()
    since: float | str | None = None
    until: float | str | None = None
    where: str | None = None
    user: str | None = ALL
    sort: str | None = None
    limit: int | None = None


class History:
    """Remembers the runs of installs. A plugin registers one with the hook `register_history`.

    Without a plugin, runs have the tags that they were started with, and nothing else is known.
    """

    plugin: str = ""
    """The name of the plugin that registered it; set by llmbx."""

    def select(self, install: Install, selection: Selection) -> list[Run]:
        """The selected runs with a readable record, newest first unless sorted otherwise.

        Raises `UsageError` if a filter is invalid.
        """
        raise UsageError(MISSING)

    def columns(self) -> dict[str, tuple[str, str]]:
        """The columns of a run, by the dotted names of `result.json`: kind and unit of each.

        Kinds are text, number, count, flag, date and words; values without a unit have an empty one.
        """
        return {}

    def row(self, run: Run, plugins: Any) -> dict[str, Any]:
        """The columns of one run as it is now: finalized if it has ended, else with the state of its job.

        `plugins` are the loaded `Plugins`. Unknown values are None. Raises `LlmbxError` if its record cannot be read.
        """
        raise UsageError(MISSING)

    def earlier_repeats(self, install: Install, run: Run, plugins: Any, compared: Collection[str]) -> list[list[float]]:
        """The mean step times (s) of earlier runs like `run` on its machine, one list for each set-up.

        The `compared` runs, by id, do not count. `plugins` are the loaded `Plugins`.
        """
        return []

    def tags(self, run: Run) -> tuple[str, ...]:
        """The current tags of the run."""
        return run.record.spec.tags

    def all_tags(self, install: Install) -> set[str]:
        """All tags of all runs."""
        raise UsageError(MISSING)


NO_HISTORY = History()
"""Remembers nothing."""
