"""Query the index: build SQL from a `Selection`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, did_you_mean
from ..model import Scalar
from ..record.history import ALL, Selection
from ..record.host import current_user
from .columns import MEASURE, column, expression, quoted
from .timespec import parse_time
from .where import condition

if TYPE_CHECKING:
    import sqlite3

NEWEST = '"created" DESC, "run_id" DESC'

LARGEST = 2**63 - 1
"""Largest integer of SQLite."""


FAILED = ("SQLITE_ERROR", "SQLITE_TOOBIG")
"""Errors of SQLite that come from a function or operator, not from the file."""


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
    if wanted.user == "":
        raise UsageError(f"user: expected a name or '{ALL}'")
    if wanted.user != ALL:
        parts.append('"user" = ?')
        values.append(current_user() if wanted.user is None else wanted.user)
    for tag in wanted.tags:
        parts.append(f"instr({quoted('tags')}, ?) > 0")
        values.append(f" {tag} ")
    for name, bound, sign in (("since", wanted.since, ">="), ("until", wanted.until, "<")):
        if bound is not None:
            parts.append(f'"created" {sign} ?')
            values.append(_time(bound, name))
    if wanted.where is not None:
        parts.append(condition(wanted.where))
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), tuple(map(_bound, values))


def _time(bound: float | str, name: str) -> float:
    """The bound in epoch seconds; `until` a date includes the whole day."""
    return parse_time(bound, name, end_of_day=name == "until") if isinstance(bound, str) else bound


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
