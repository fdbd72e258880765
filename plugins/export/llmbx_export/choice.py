"""Choose the runs to export: named ones, or all that match filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from llmbx.api import UsageError
from llmbx.api.verbs import Selection, Workspace, check_tags

from .measures import Row

if TYPE_CHECKING:
    from llmbx.api.verbs import Run


class Chosen(NamedTuple):
    """One run and its columns."""

    run: Run
    row: Row


class Filters(NamedTuple):
    """The filters of `llmbx jobs`; `user` is a name or "all", by default this user."""

    where: str | None = None
    since: str | None = None
    tags: tuple[str, ...] = ()
    user: str | None = None


def choose(names: Sequence[str], filters: Filters, workspace: Workspace) -> list[Chosen]:
    """The named runs, or those that match the filters, newest first; without both, the last run.

    Runs that have ended are finalized first. Raises `UsageError` if no run matches, or for names with filters.
    """
    filtered = any(filters)
    if names and filtered:
        raise UsageError("RUN cannot be combined with --where, --since, --tag and --user")
    if filtered:
        selection = Selection(
            where=filters.where, since=filters.since, tags=check_tags(filters.tags), user=filters.user
        )
        runs = workspace.plugins.history.select(workspace.install, selection)
        if not runs:
            raise UsageError(f"no run in {workspace.install.root} matches; see `llmbx jobs` with the same filters")
    else:
        named = [workspace.find_run(name) for name in names or ("last",)]
        runs = list({run.record.run_id: run for run in named}.values())
    return [Chosen(run, workspace.plugins.history.row(run, workspace.plugins)) for run in runs]
