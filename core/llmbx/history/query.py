"""Query the index: build SQL from a `Selection`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..config.request import check_tags
from ..errors import UsageError, did_you_mean
from ..model import Scalar, Value
from ..record.host import current_user
from .columns import MEASURE, column, expression, quoted
from .timespec import parse_time
from .where import condition

if TYPE_CHECKING:
    import sqlite3

ALL = "all"
"""Selects the runs of all users."""

NEWEST = '"created" DESC, "run_id" DESC'

LARGEST = 2**63 - 1
"""Largest integer of SQLite."""


FAILED = ("SQLITE_ERROR", "SQLITE_TOOBIG")
"""Errors of SQLite that come from a function or operator, not from the file."""


class Selection(Value, frozen=True):
    """Filters, order and limit of a query.

    `equal` maps columns to their accepted values (any of them), all of `tags` must be present, `since` and `until` are
    epoch seconds, `where` is an SQL condition (see `where`). `sort` is a comma-separated list of columns; a leading `-`
    sorts in descending order, and missing values come last. `own` selects the runs of this user.
    `limit` is the maximum number of runs, None for all.
    """

    equal: dict[str, tuple[Scalar, ...]] = {}
    tags: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    where: str | None = None
    sort: str | None = None
    limit: int | None = None
    own: str | None = None

    @staticmethod
    def of(
        where: str | None, times: tuple[str | datetime | None, str | datetime | None], tags: Sequence[str],
        user: str | None, sort: str | None = None, limit: int | None = None,
    ) -> Selection:  # fmt: skip
        """The filters of `llmbx.load_runs` as a query: `user` is a name or "all", None is this user; `times` are the
        first time and the last.

        Raises `UsageError` if one is invalid.
        """
        if user == "" or (limit is not None and limit < 0):
            problem = "user: expected a name or 'all'" if user == "" else f"limit: expected 0 or more, got {limit}"
            raise UsageError(problem)
        for term in (sort or "").split(",") if sort else ():
            column(term.strip().lstrip("-+"), "sort")
        since, until = times
        return Selection(
            equal={"user": (user,)} if user not in (None, ALL) else {},
            own=current_user() if user is None else None,
            tags=check_tags(tags),
            since=_time(since, "since"),
            until=_time(until, "until", end_of_day=True),
            where=where,
            sort=sort,
            limit=limit,
        )


def _time(value: str | datetime | None, name: str, end_of_day: bool = False) -> float | None:
    if isinstance(value, datetime):
        return value.timestamp()
    return None if value is None else parse_time(value, name, end_of_day=end_of_day)


def rows(db: sqlite3.Connection, wanted: Selection, columns: Sequence[str]) -> list[tuple[Scalar, ...]]:
    """These columns (by full name) of the selected runs."""
    return _read(db, f"SELECT {', '.join(map(expression, columns))} FROM runs{{}}", wanted)


def documents(db: sqlite3.Connection, wanted: Selection) -> list[str]:
    """The selected runs as pieces of a JSON list."""
    text = "SELECT text FROM documents WHERE documents.number = selected.number"
    query = f"SELECT ({text}) FROM (SELECT number FROM runs{{}}) AS selected"
    return [text for (text,) in _read(db, query, wanted)]


def folders(db: sqlite3.Connection, wanted: Selection) -> list[str]:
    """The folders of the selected runs."""
    return [folder for (folder,) in _read(db, "SELECT folder FROM runs{}", wanted)]


def count(db: sqlite3.Connection, wanted: Selection) -> int:
    """The number of selected runs, ignoring the limit."""
    ((number,),) = _read(db, "SELECT count(*) FROM runs{}", wanted.replace(sort=None, limit=None))
    return int(number)


def _read(db: sqlite3.Connection, query: str, wanted: Selection) -> list[tuple[Any, ...]]:
    """The rows of a query, whose filters, order and limit are to be added at `{}`.

    Raises `UsageError` if the condition that a user typed fails for the values of a run.
    """
    import sqlite3

    where, values = _where(wanted)
    try:
        return db.execute(query.format(f"{where}{_order(wanted)}{_limit(wanted)}"), values).fetchall()
    except sqlite3.Error as error:
        if wanted.where is None or error.sqlite_errorname not in FAILED or str(error).startswith("no such "):
            raise
        raise UsageError(f"--where: {error}") from None


def check_measures(db: sqlite3.Connection, wanted: Selection, columns: Sequence[str]) -> None:
    """Raise `UsageError` if the query names a measure that no run has: it is misspelled."""
    where = re.sub(r"""'[^']*'|"[^"]*\"""", "", wanted.where or "")
    texts = (*columns, wanted.sort or "", where)
    names = [match[1] for text in texts for match in MEASURE.finditer(text)]
    if not names:
        return
    measures = [name for (name,) in db.execute("SELECT DISTINCT key FROM runs, json_each(runs.measures)")]
    for name in names:
        if name not in measures:
            raise UsageError(f"no run has the measure '{name}'{did_you_mean(name, measures)}")


def _where(wanted: Selection) -> tuple[str, tuple[Scalar, ...]]:
    parts: list[str] = []
    values: list[Scalar] = []
    for name, allowed in wanted.equal.items():
        parts.append(f"{quoted(name)} IN ({', '.join('?' * len(allowed))})")
        values += allowed
    if wanted.own is not None:
        parts.append('"user" = ?')
        values.append(wanted.own)
    for tag in wanted.tags:
        parts.append(f"instr({quoted('tags')}, ?) > 0")
        values.append(f" {tag} ")
    for bound, sign in ((wanted.since, ">="), (wanted.until, "<")):
        if bound is not None:
            parts.append(f'"created" {sign} ?')
            values.append(bound)
    if wanted.where is not None:
        parts.append(condition(wanted.where))
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), tuple(map(_bound, values))


def _bound(value: Scalar) -> Scalar:
    """A value that SQLite accepts: an integer of more than 64 bits becomes a float, which compares alike."""
    if not isinstance(value, int) or -LARGEST <= value <= LARGEST:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _order(wanted: Selection) -> str:
    terms = []
    for term in (wanted.sort or "").split(",") if wanted.sort else ():
        descending = term.strip().startswith("-")
        name = expression(column(term.strip().lstrip("-+"), "--sort"))
        terms.append(f"{name} IS NULL, {name} {'DESC' if descending else 'ASC'}")
    return f" ORDER BY {', '.join([*terms, NEWEST])}"


def _limit(wanted: Selection) -> str:
    return f" LIMIT {min(wanted.limit, LARGEST)}" if wanted.limit is not None else ""
