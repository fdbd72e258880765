"""Choose the runs to export: named ones, or all that match filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from llmbx.api import UsageError
from llmbx.api.verbs import Selection, Workspace, find_run, query_runs, run_row

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
        selection = Selection.of(filters.where, (filters.since, None), filters.tags, filters.user)
        runs = query_runs(workspace.install, selection)
        if not runs:
            raise UsageError(f"no run in {workspace.install.root} matches; see `llmbx jobs` with the same filters")
    else:
        named = [find_run(workspace.install, name) for name in names or ("last",)]
        runs = list({run.record.run_id: run for run in named}.values())
    return [Chosen(run, run_row(run, workspace.plugins)) for run in runs]
