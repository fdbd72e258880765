"""List the runs of this install with their status; add and remove tags."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from llmbx.api import Scalar, UsageError, did_you_mean, plural
from llmbx.api.verbs import (
    RUN_ARGUMENT,
    Selection,
    Workspace,
    explicit_options,
    format_option,
    print_rows,
)

from .printing import nothing, remarks, shown, write_json, write_lines
from .progress import Progress

if TYPE_CHECKING:
    from llmbx.api.verbs import Install, Plugins

COLUMNS = (
    "id",
    "workload",
    "size",
    "dtype",
    "gpus",
    "status",
    "step_time_s",
    "tflops_per_gpu",
    "age",
)
FILTERS = ("workload", "size", "dtype", "gpu_type", "gpus", "status")
COMPLETE = ("json", "jsonl")
"""Formats that print whole rows, unless --columns is set."""

SHOWN = 100
"""Default number of rows of a table."""


def _several(*names: str, help: str, **more: Any) -> Callable[..., Any]:
    return click.option(*names, multiple=True, help=help, **more)


@click.group("jobs", invoke_without_command=True)
@_several("--workload", help="Only runs of this workload (name or alias).")
@_several("--size", help="Only this size.")
@_several("--dtype", help="Only this dtype.")
@_several("--gpu-type", help="Only this GPU type.")
@_several("--gpus", "--scale", "gpus", type=click.IntRange(min=1), help="Only this scale.")
@_several("--status", help="Only runs with this status: completed, failed, running …")
@_several(
    "--user",
    "users",
    metavar="NAME|all",
    help="Only runs of this user, or of all users.  [default: you]",
)
@_several("--tag", "tags", help="Only runs with this tag.")
@click.option(
    "--since",
    metavar="WHEN",
    help="Only runs created since then: 2026-11-20, '2026-11-20 14:30', 7d, 12h.",
)
@click.option(
    "--until", metavar="WHEN", help="Only runs created until then; a date includes the whole day."
)
@click.option(
    "--where",
    metavar="CONDITION",
    help='Only runs that match: "step_time_s.mean < 8 and gpus >= 64".',
)
@click.option(
    "--sort",
    metavar="COLUMN",
    help="Sort by COLUMN, with -COLUMN in descending order; several separated by commas.",
)
@click.option(
    "--columns", metavar="A,B,…", help="Columns to print; +A,B adds columns to the default ones."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    default=None,
    metavar="N",
    help=f"Show at most N (0 = all).  [default: {SHOWN} in a table, else all]",
)
@format_option("jsonl")
@click.pass_context
def command(
    context: click.Context,
    /,
    users: tuple[str, ...],
    tags: tuple[str, ...],
    since: str | None,
    until: str | None,
    where: str | None,
    sort: str | None,
    columns: str | None,
    limit: int | None,
    format_: str,
    **filters: tuple[Scalar, ...],
) -> None:
    """List the runs of this install with their status, newest first.

    Only your runs are listed, unless --user names another user, or all. Your runs that have ended
    since the last call are finalized first, even if the llmbx that started them was killed; the
    state of others is only computed. Repeated options are ORed, repeated --tag options are ANDed.

    Columns are the fields of result.json by dotted name (step_time_s.mean, mfu.value, window.first,
    measures.NAME.mean …), the short names step_time_s, mfu, gpus, gbs, tp …, and created, tags,
    group, folder, age. --where is an SQL condition: comparisons, AND, OR, NOT, IN, BETWEEN, LIKE,
    IS NULL, parentheses and + - * /; strings are quoted. 'text' IN COLUMN finds a tag or a part of
    a text. Missing values match only `!=` and `IS NULL`.

    --format jsonl prints the objects of --format json in one line each.

    \b
    Examples:
      llmbx jobs --workload grok1 --status failed --format json
      llmbx jobs --since 7d --tag accepted --sort -mfu --columns id,mfu,step_time_s
      llmbx jobs --where "step_time_s.std / step_time_s.mean > 0.02 and 'drift' not in tags"
      llmbx jobs tag last accepted
    """
    if context.invoked_subcommand is not None:
        if options := explicit_options(context):
            below = f"`jobs {context.invoked_subcommand}`"
            raise UsageError(f"{options[0]} cannot be combined with {below}")
        return
    selection = _selection(filters, tags, (since, until, where, sort), limit, format_)
    if users and columns is None and format_ not in COMPLETE:
        columns = "+user"
    _list(_of_users(selection, users), columns, format_)


@command.command("rebuild")
def rebuild() -> None:
    """Rebuild the index of runs from their folders.

    The index is stored in the cache folder ($XDG_CACHE_HOME, else ~/.cache) and is updated
    automatically; rebuild it after changing run folders by hand. It may be deleted at any time: all
    its data comes from the run folders.
    """
    from . import runs

    install, _ = Workspace.install_and_plugins()
    began = time.monotonic()
    with Progress() as progress:
        count = runs.rebuild(install, progress)
    click.echo(f"{plural(count, 'runs')} of {install.root} in {time.monotonic() - began:.1f} s")


@command.command("tag")
@click.argument("run_name", metavar="RUN", type=RUN_ARGUMENT)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def tag(run_name: str, names: tuple[str, ...]) -> None:
    """Add tags to a run.

    Tags select runs in `llmbx jobs --tag` and `llmbx compare --baseline`. Those of another user's
    run are yours alone.

    RUN is a short id or a run id, a unique prefix of one, a folder, a job id, `last`, `last~2` for
    the second before it, or @NAME for the newest run with that tag.
    """
    _change(run_name, add=names)


@command.command("untag")
@click.argument("run_name", metavar="RUN", type=RUN_ARGUMENT)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def untag(run_name: str, names: tuple[str, ...]) -> None:
    """Remove tags from a run."""
    _change(run_name, remove=names)


def _change(run_name: str, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> None:
    from .runs import reread
    from .tags import change_tags, tags_of

    install, plugins = Workspace.install_and_plugins()
    run = plugins().find_run(install, run_name)
    missing = [name for name in remove if name not in tags_of(run)]
    if missing:
        hint = did_you_mean(missing[0], tags_of(run))
        raise UsageError(f"{run.record.run_id} has no tag '{missing[0]}'{hint}")
    tags = change_tags(run, add, remove)
    if not run.files.own:
        reread(install, run)
    click.echo(f"{run.record.run_id}: {', '.join(tags) or 'no tags'}")


def _selection(
    filters: dict[str, tuple[Scalar, ...]],
    tags: tuple[str, ...],
    texts: tuple[str | None, ...],
    limit: int | None,
    format_: str,
) -> Selection:
    """The runs that the options select, of all users."""
    from .columns import SHORT
    from .timespec import parse_time

    since, until, where, sort = texts
    for status in filters["status"]:
        _check_status(str(status))
    equal = {SHORT.get(name, name): values for name, values in filters.items() if values}
    if limit is None and format_ == "table":
        limit = SHOWN
    return Selection(
        equal={name: _lower(name, values) for name, values in equal.items()},
        tags=tags,
        since=parse_time(since, "--since") if since else None,
        until=parse_time(until, "--until", end_of_day=True) if until else None,
        where=where,
        sort=sort,
        limit=limit or None,
    )


def _of_users(selection: Selection, users: tuple[str, ...]) -> Selection:
    """The selection of these users' runs; by default of this user's."""
    from .query import ALL

    if not all(users):
        raise UsageError("--user: expected a user's name, or all")
    chosen: Selection = selection
    if not users:
        chosen = selection.replace(user=None)
    elif ALL not in users:
        chosen = selection.replace(equal={**selection.equal, "user": users})
    return chosen


def _lower(name: str, values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """The values of one filter; sizes, dtypes and GPU types in lower case."""
    small = name in ("workload.size", "workload.dtype", "workload.gpu_type")
    return tuple(value.lower() if small and isinstance(value, str) else value for value in values)


def _list(selection: Selection, columns: str | None, format_: str) -> None:
    from .runs import list_runs

    install, plugins = Workspace.install_and_plugins()
    names = _columns(columns, format_) if columns or format_ not in COMPLETE else None
    selection = _with_aliases(selection, install, plugins)
    with Progress() as progress:
        stored = None if names is None else _stored(names)
        listing = list_runs(install, plugins, selection, stored, progress)
    if names is None and format_ == "json":
        write_json(listing.documents)
    elif names is None:
        write_lines(msgspec.Raw(text.encode()) for text in listing.documents)
    else:
        rows = shown(listing.rows, names, os.path.realpath(install.root))
        if format_ == "jsonl":
            write_lines(rows)
        else:
            print_rows(rows, names, format_, empty=nothing(listing, install.root))
    remarks(listing, len(listing.rows) or len(listing.documents), format_)


def _with_aliases(
    selection: Selection, install: Install, plugins: Callable[[], Plugins]
) -> Selection:
    """Replace aliases of workloads by their names; plugins are loaded for names of no run only."""
    requested = selection.equal.get("workload.name")
    if not requested:
        return selection
    from .runs import select

    def full_name(name: Scalar) -> Scalar:
        of_workload = Selection(equal={"workload.name": (name,)}, limit=1)
        return name if select(install, of_workload) else plugins().workload(str(name)).name

    names = tuple(map(full_name, requested))
    changed: Selection = selection.replace(equal={**selection.equal, "workload.name": names})
    return changed


def _columns(text: str | None, format_: str) -> tuple[str, ...]:
    from .columns import column

    names = [name.strip() for name in (text or "").lstrip("+").split(",") if name.strip()]
    for name in names:
        if name not in ("age", "folder"):
            column(name, "--columns")
    usual: tuple[str, ...] = COLUMNS if not text or text.startswith("+") else ()
    if usual and format_ == "csv":  # a table has no space for ids of 60 characters
        usual = (usual[0], "run_id", *usual[1:])
    if not (*usual, *names):
        raise UsageError("--columns: expected column names such as run_id,mfu,tags")
    return tuple(dict.fromkeys((*usual, *names)))


def _stored(names: Sequence[str]) -> list[str]:
    from .columns import full_name

    return ["created" if name == "age" else full_name(name) or name for name in names]


def _check_status(status: str) -> None:
    from typing import get_args, get_type_hints

    from llmbx.api import JobStatus, Result

    from .read import DAMAGED, UNKNOWN

    ended = get_args(get_type_hints(Result)["status"])
    open_ = get_args(get_type_hints(JobStatus)["state"])
    statuses = (*ended, *open_, UNKNOWN, DAMAGED)
    if status not in statuses:
        raise UsageError(f"--status {status}: unknown status{did_you_mean(status, statuses)}")
