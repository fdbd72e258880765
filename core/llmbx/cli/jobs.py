"""List the runs of this install with their status; add and remove tags."""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError, did_you_mean
from ..model import Scalar
from ..phrases import plural
from .completion import RUN
from .explicit_options import explicit_options
from .output import csv_cell, format_option, print_json_lines, print_rows
from .streams import control, visible_json
from .workspace import find_run, install_and_plugins

if TYPE_CHECKING:
    from ..config.install import Install
    from ..history import Listing
    from ..plugins.manager import Plugins
    from ..record.history import Selection

COLUMNS = ("id", "workload", "size", "dtype", "gpus", "status", "step_time_s", "tflops_per_gpu", "age")
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
@_several("--user", "users", metavar="NAME|all", help="Only runs of this user, or of all users.  [default: you]")
@_several("--tag", "tags", help="Only runs with this tag.")
@click.option("--since", metavar="WHEN", help="Only runs created since then: 2026-11-20, '2026-11-20 14:30', 7d, 12h.")
@click.option("--until", metavar="WHEN", help="Only runs created until then; a date includes the whole day.")
@click.option("--where", metavar="CONDITION", help='Only runs that match: "step_time_s.mean < 8 and gpus >= 64".')
@click.option(
    "--sort", metavar="COLUMN", help="Sort by COLUMN, with -COLUMN in descending order; several separated by commas."
)
@click.option("--columns", metavar="A,B,…", help="Columns to print; +A,B adds columns to the default ones.")
@click.option("-n", "--limit", type=click.IntRange(min=0), default=None, metavar="N",
              help=f"Show at most N (0 = all).  [default: {SHOWN} in a table, else all]")  # fmt: skip
@format_option("jsonl")
@click.pass_context
def command(
    context: click.Context, /, users: tuple[str, ...], tags: tuple[str, ...], since: str | None, until: str | None,
    where: str | None, sort: str | None, columns: str | None, limit: int | None, format_: str,
    **filters: tuple[Scalar, ...],
) -> None:  # fmt: skip
    """List the runs of this install with their status, newest first.

    Only your runs are listed, unless --user names another user, or all. Your runs that have ended since the last call
    are finalized first, even if the llmbx that started them was killed; the state of others is only computed. Repeated
    options are ORed, repeated --tag options are ANDed.

    Columns are the fields of result.json by dotted name (step_time_s.mean, mfu.value, window.first,
    measures.NAME.mean …),
    the short names step_time_s, mfu, gpus, gbs, tp …, and created, tags, group, folder, age. --where is an SQL
    condition: comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, parentheses and + - * /; strings are quoted.
    'text' IN COLUMN finds a tag or a part of a text. Missing values match only `!=` and `IS NULL`.

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
            raise UsageError(f"{options[0]} cannot be combined with `jobs {context.invoked_subcommand}`")
        return
    wanted = _of_users(_selection(filters, tags, (since, until, where, sort), limit, format_), users)
    _list(wanted, columns or ("+user" if users and format_ not in COMPLETE else None), format_)


@command.command("rebuild")
def rebuild() -> None:
    """Rebuild the index of runs from their folders.

    The index is stored in the cache folder ($XDG_CACHE_HOME, else ~/.cache) and is updated automatically; rebuild it
    after changing run folders by hand. It may be deleted at any time: all its data comes from the run folders.
    """
    from .. import history

    install, _ = install_and_plugins()
    began = time.monotonic()
    with _Progress() as progress:
        found = history.rebuild(install, progress)
    click.echo(f"{plural(found, 'runs')} of {install.root} in {time.monotonic() - began:.1f} s")


@command.command("tag")
@click.argument("run_name", metavar="RUN", type=RUN)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def tag(run_name: str, names: tuple[str, ...]) -> None:
    """Add tags to a run.

    Tags select runs in `llmbx jobs --tag` and `llmbx compare --baseline`. Those of another user's run are yours alone.

    RUN is a short id or a run id, a unique prefix of one, a folder, a job id, `last`, `last~2` for the second before
    it, or @NAME for the newest run with that tag.
    """
    _change(run_name, add=names)


@command.command("untag")
@click.argument("run_name", metavar="RUN", type=RUN)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def untag(run_name: str, names: tuple[str, ...]) -> None:
    """Remove tags from a run."""
    _change(run_name, remove=names)


def _change(run_name: str, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()) -> None:
    from ..history import reread
    from ..history.tags import change_tags, tags_of

    install, plugins = install_and_plugins()
    run = find_run(install, run_name, plugins)
    missing = [name for name in remove if name not in tags_of(run)]
    if missing:
        raise UsageError(f"{run.record.run_id} has no tag '{missing[0]}'{did_you_mean(missing[0], tags_of(run))}")
    tags = change_tags(run, add, remove)
    if not run.files.own:
        reread(install, run)
    click.echo(f"{run.record.run_id}: {', '.join(tags) or 'no tags'}")


def _selection(
    filters: dict[str, tuple[Scalar, ...]], tags: tuple[str, ...], texts: tuple[str | None, ...], limit: int | None,
    format_: str,
) -> Selection:  # fmt: skip
    from ..history.columns import SHORT
    from ..history.timespec import parse_time
    from ..record.history import Selection

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


def _of_users(wanted: Selection, users: tuple[str, ...]) -> Selection:
    """The selection of these users' runs; by default of this user's."""
    from ..record.history import ALL

    if not all(users):
        raise UsageError("--user: expected a user's name, or all")
    chosen: Selection = wanted
    if not users:
        chosen = wanted.replace(user=None)
    elif ALL not in users:
        chosen = wanted.replace(equal={**wanted.equal, "user": users})
    return chosen


def _lower(name: str, values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """The values of one filter; sizes, dtypes and GPU types in lower case."""
    small = name in ("workload.size", "workload.dtype", "workload.gpu_type")
    return tuple(value.lower() if small and isinstance(value, str) else value for value in values)


def _list(wanted: Selection, columns: str | None, format_: str) -> None:
    from ..history import list_runs

    install, plugins = install_and_plugins()
    names = _columns(columns, format_) if columns or format_ not in COMPLETE else None
    wanted = _with_aliases(wanted, install, plugins)
    with _Progress() as progress:
        found = list_runs(install, plugins, wanted, None if names is None else _stored(names), progress)
    if names is None:
        (_write_json if format_ == "json" else _write_lines)(found.documents)
    else:
        taken = [*zip(*found.rows, strict=True)] or [()] * len(names)
        for name, read in _readers(names, os.path.realpath(install.root)).items():
            if name in names:
                taken[names.index(name)] = tuple(map(read, taken[names.index(name)]))
        rows = [*zip(*taken, strict=True)]
        if format_ == "csv":
            csv.writer(sys.stdout, lineterminator="\n").writerows([names, *(map(csv_cell, row) for row in rows)])
        elif format_ == "jsonl":
            print_json_lines(dict(zip(names, row, strict=True)) for row in rows)
        else:
            print_rows([dict(zip(names, row, strict=True)) for row in rows], names, format_,
                       empty=_nothing(found, install.root))  # fmt: skip
    _remarks(found, len(found.rows) or len(found.documents), format_)


def _write_json(documents: Sequence[str]) -> None:
    """Write the JSON documents as one array, 5000 at a time: joining 100,000 runs (90 MB) at once would copy them."""
    if not documents:
        sys.stdout.write("[]\n")
        return
    for start in range(0, len(documents), 5000):
        sys.stdout.write(",\n" if start else "[\n")
        sys.stdout.write(visible_json(",\n".join(documents[start : start + 5000])))
    sys.stdout.write("\n]\n")


def _write_lines(documents: Iterable[str]) -> None:
    """Write each JSON document in one line."""
    import msgspec

    for text in documents:
        sys.stdout.write(visible_json(msgspec.json.format(text, indent=-1)) + "\n")


def _with_aliases(wanted: Selection, install: Install, plugins: Callable[[], Plugins]) -> Selection:
    """Replace aliases of workloads by their names. Plugins are loaded only for names that no run has."""
    requested = wanted.equal.get("workload.name")
    if not requested:
        return wanted
    from ..history import select
    from ..record.history import Selection

    known = [bool(select(install, Selection(equal={"workload.name": (name,)}, limit=1))) for name in requested]
    names = tuple(n if there else plugins().workload(str(n)).name for n, there in zip(requested, known, strict=True))
    changed: Selection = wanted.replace(equal={**wanted.equal, "workload.name": names})
    return changed


def _columns(text: str | None, format_: str) -> tuple[str, ...]:
    from ..history.columns import column

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
    from ..history.columns import full_name

    return ["created" if name == "age" else full_name(name) or name for name in names]


def _readers(names: Sequence[str], root: str) -> Mapping[str, Callable[[Any], Any]]:
    """Functions that convert stored values for display, by column; other columns are shown as stored."""
    from ..history.columns import COLUMNS as KINDS
    from ..history.columns import full_name

    now = time.time()
    special: dict[str, Callable[[Any], Any]] = {
        "age": lambda value: age(now - value),
        "folder": lambda value: value if value.startswith("/") else f"{root}/{value}",
    }
    kinds = {name: KINDS.get(full_name(name) or "") for name in names}
    flags = {name: lambda value: None if value is None else bool(value) for name in names if kinds[name] == "flag"}
    tags = {name: lambda value: ", ".join((value or "").split()) or None for name in names if kinds[name] == "words"}
    return {**special, **flags, **tags}


def _nothing(found: Listing, root: str) -> str:
    if found.of_others:
        return f"none of your runs in {root} match; --user all selects those of all users"
    return f"none of the {found.runs} runs in {root} match" if found.runs else f"no runs in {root}"


def _remarks(found: Listing, shown: int, format_: str) -> None:
    if found.fitting > shown and format_ == "table":
        click.echo(f"{shown} of {found.fitting} runs shown; use --limit 0 to list all", err=True)
    if found.of_others and format_ == "table":
        runs = "1 run" if found.of_others == 1 else f"{found.of_others} runs"
        click.echo(f"{runs} of other users not shown; use --user all to list all", err=True)
    for folder, why in found.damaged[:3]:
        click.echo(f"llmbx: note: {folder} cannot be read: {why}", err=True)
    if len(found.damaged) > 3:
        click.echo(f"llmbx: note: {len(found.damaged) - 3} more folders cannot be read", err=True)


def age(seconds: float) -> str:
    """A time span in the largest unit that fits: `12 s`, `5 min`, `3 h`, `4 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def _check_status(status: str) -> None:
    from typing import get_args

    from ..history.read import DAMAGED, UNKNOWN
    from ..model.job import JobState
    from ..model.result import Status

    known = (*get_args(Status), *get_args(JobState), UNKNOWN, DAMAGED)
    if status not in known:
        raise UsageError(f"--status {status}: unknown status{did_you_mean(status, known)}")


class _Progress:
    """Reports on stderr how many run folders have been read, once that takes more than a second."""

    def __init__(self) -> None:
        self.began = self.printed = time.monotonic()
        self.open = False

    def __enter__(self) -> _Progress:
        return self

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if now - self.began < 1 or now - self.printed < (0.2 if terminal else 5):
            return
        self.printed = now
        text = f"reading runs: {done} of {of} experiments, {now - self.began:.0f} s"
        if terminal:
            control(sys.stderr, "\r")
        click.echo(text if terminal else f"llmbx: {text}", err=True, nl=not terminal)
        self.open = terminal

    def __exit__(self, *_: Any) -> None:
        if self.open:
            click.echo(err=True)
