"""Earlier runs for Python programs: `llmbx.load_runs()`."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from llmbx.api import LlmbxError, UsageError, plural
from llmbx.api.verbs import Install, Selection, check_tags

from .columns import COLUMNS, column
from .entry import Entry, entry
from .read import UNKNOWN, Unreadable, read_values
from .runs import list_runs

if TYPE_CHECKING:
    import pandas
    import polars

    from llmbx.api.verbs import Plugins, Run

Row = dict[str, Any]

FOLDER = "folder"
"""Column that every run has beside those of the history: its folder."""


class Runs(Sequence[Entry]):
    """An immutable sequence of runs, newest first unless sorted otherwise.

    Each item is an `Entry`, with the fields of `llmbx jobs --format json`. Rows and frames have all
    columns of the history by their dotted names, and `folder`; docs/interfaces.md lists them with
    their units. Unknown values are None, in a pandas frame NA or NaN.
    """

    __slots__ = ("_entries", "_rows")

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = tuple(rows)
        self._entries = tuple(_entry(row) for row in rows)

    @overload
    def __getitem__(self, index: int) -> Entry: ...

    @overload
    def __getitem__(self, index: slice) -> Runs: ...

    def __getitem__(self, index: int | slice) -> Entry | Runs:
        return Runs(self._rows[index]) if isinstance(index, slice) else self._entries[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return self._rows == other._rows if isinstance(other, Runs) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(item.run_id for item in self._entries))

    def __repr__(self) -> str:
        return f"<{plural(len(self), 'runs')}>"

    def rows(self) -> list[Row]:
        """One dictionary per run; `created` is a UTC datetime, `tags` a tuple."""
        return [dict(row) for row in self._rows]

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas frame with one row per run. Raises `UsageError` if pandas is not installed."""
        from .frames import to_pandas

        return to_pandas(self._rows)

    def to_polars(self) -> polars.DataFrame:
        """A polars frame with one row per run. Raises `UsageError` if polars is not installed."""
        from .frames import to_polars

        return to_polars(self._rows)


def load_runs(
    install: str | os.PathLike[str] | None = None,
    *,
    where: str | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    tags: str | Sequence[str] = (),
    user: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
) -> Runs:
    """The runs of an install (default: that of the command), with the filters of `llmbx jobs`.

    `since` and `until` are a date with a time zone, or a text such as "2026-11-20" or "7d". All
    `tags` must be present. `user` is a name or "all"; the default is the runs of this user. `sort`
    and `where` name columns; `limit` is the maximum number of runs. Runs that have ended are
    finalized first, as `llmbx jobs` does. Raises `UsageError` for an install that does not exist
    and for invalid filters.
    """
    names = (*COLUMNS, FOLDER)
    place = _install(install)
    if limit is not None and limit < 0:
        raise UsageError(f"limit: expected 0 or more, got {limit}")
    for term in sort.split(",") if sort else ():
        column(term.strip().lstrip("-+"), "sort")
    query = Selection(
        tags=check_tags((tags,) if isinstance(tags, str) else tags),
        since=since.timestamp() if isinstance(since, datetime) else since,
        until=until.timestamp() if isinstance(until, datetime) else until,
        where=where,
        user=user,
        sort=sort,
        limit=limit,
    )
    with _shared(place):
        listing = list_runs(place, _load_plugins, query, names)
    root = Path(os.path.realpath(place.root))
    rows = [_row(dict(zip(names, values, strict=True))) for values in listing.rows]
    return Runs([{**row, FOLDER: str(root / row[FOLDER])} for row in rows])


def _load_plugins() -> Plugins:
    from llmbx.api.verbs import load_plugins

    return load_plugins()


def _install(path: str | os.PathLike[str] | None) -> Install:
    named = Install.find(path)
    if path is not None and not named.path.is_dir():
        expected = "expected the folder that LLMB_INSTALL names"
        raise UsageError(f"install {named.root}: no such folder; {expected}")
    return named


@contextlib.contextmanager
def _shared(install: Install) -> Iterator[None]:
    """Write for the group of a shared install; the program's umask is restored."""
    before = os.umask(0o077)
    os.umask(before | stat.S_IWOTH)
    try:
        install.share()
        yield
    finally:
        os.umask(before)


def row_of(run: Run, plugins: Plugins) -> Row:
    """The columns of one run as it is now: finalized if it has ended, else with its job's state.

    Raises `LlmbxError` if its record cannot be read.
    """
    from llmbx.api.verbs import current_status

    status, cause = current_status(run, plugins)
    try:
        values: Row = dict.fromkeys(COLUMNS) | read_values(run.path) | {FOLDER: run.folder}
    except Unreadable as error:
        raise LlmbxError(f"{run.folder}: {error}") from None
    if values["status"] == UNKNOWN:
        values.update(status=status, cause=cause)
    return _row(values)


def _row(values: Row) -> Row:
    """The values of one run as Python objects."""
    for name, (kind, _, _) in COLUMNS.items():
        value = values[name]
        if kind == "words":
            values[name] = tuple(str(value or "").split())
        elif value is not None and kind == "flag":
            values[name] = bool(value)
        elif value is not None and kind == "date":
            values[name] = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, int) and kind == "number":
            values[name] = float(value)
    return values


def _entry(row: Row) -> Entry:
    stored = {**row, "created": row["created"].timestamp(), "tags": " ".join(row["tags"])}
    return entry(stored, row[FOLDER])
