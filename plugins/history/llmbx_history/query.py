"""Query the index: build SQL from a `Selection`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llmbx.api import Scalar, UsageError, did_you_mean
from llmbx.api.verbs import Selection, current_user

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


def rows(
    db: sqlite3.Connection, selection: Selection, columns: Sequence[str]
) -> list[tuple[Scalar, ...]]:
    """These columns (by full name) of the selected runs."""
    return _read(db, f"SELECT {', '.join(map(expression, columns))} FROM runs{{}}", selection)


def documents(db: sqlite3.Connection, selection: Selection) -> list[str]:
    """The selected runs as pieces of a JSON list."""
    text = "SELECT text FROM documents WHERE documents.number = selected.number"
    query = f"SELECT ({text}) FROM (SELECT number FROM runs{{}}) AS selected"
    return [text for (text,) in _read(db, query, selection)]


def folders(db: sqlite3.Connection, selection: Selection) -> list[str]:
    """The folders of the selected runs."""
    return [folder for (folder,) in _read(db, "SELECT folder FROM runs{}", selection)]


def count(db: sqlite3.Connection, selection: Selection) -> int:
    """The number of selected runs, ignoring the limit."""
    unlimited = selection.replace(sort=None, limit=None)
    ((number,),) = _read(db, "SELECT count(*) FROM runs{}", unlimited)
    return int(number)


def _read(db: sqlite3.Connection, query: str, selection: Selection) -> list[tuple[Any, ...]]:
    """The rows of a query, whose filters, order and limit are to be added at `{}`.

    Raises `UsageError` if the condition that a user typed fails for the values of a run.
    """
    import sqlite3

    where, values = _where(selection)
    try:
        whole = query.format(f"{where}{_order(selection)}{_limit(selection)}")
        return db.execute(whole, values).fetchall()
    except sqlite3.Error as error:
        missing = str(error).startswith("no such ")
        if selection.where is None or error.sqlite_errorname not in FAILED or missing:
            raise
        raise UsageError(f"--where: {error}") from None


def check_measures(db: sqlite3.Connection, selection: Selection, columns: Sequence[str]) -> None:
    """Raise `UsageError` if the query names a measure that no run has: it is misspelled."""
    where = re.sub(r"""'[^']*'|"[^"]*\"""", "", selection.where or "")
    texts = (*columns, selection.sort or "", where)
    names = [match[1] for text in texts for match in MEASURE.finditer(text)]
    if not names:
        return
    query = "SELECT DISTINCT key FROM runs, json_each(runs.measures)"
    measures = [name for (name,) in db.execute(query)]
    for name in names:
        if name not in measures:
            raise UsageError(f"no run has the measure '{name}'{did_you_mean(name, measures)}")


def _where(selection: Selection) -> tuple[str, tuple[Scalar, ...]]:
    """The filters as SQL, and the values of its marks."""
    parts: list[str] = []
    values: list[Scalar] = []
    for name, allowed in selection.equal.items():
        parts.append(f"{quoted(name)} IN ({', '.join('?' * len(allowed))})")
        values += allowed
    if selection.user == "":
        raise UsageError(f"user: expected a name or '{ALL}'")
    if selection.user != ALL:
        parts.append('"user" = ?')
        values.append(current_user() if selection.user is None else selection.user)
    for tag in selection.tags:
        parts.append(f"instr({quoted('tags')}, ?) > 0")
        values.append(f" {tag} ")
    if selection.since is not None:
        parts.append('"created" >= ?')
        values.append(_time(selection.since, "since"))
    if selection.until is not None:
        parts.append('"created" < ?')
        values.append(_time(selection.until, "until"))
    if selection.where is not None:
        parts.append(condition(selection.where))
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), tuple(map(_bound, values))


def _time(bound: float | str, name: str) -> float:
    """The bound in epoch seconds; `until` a date includes the whole day."""
    if not isinstance(bound, str):
        return bound
    return parse_time(bound, name, end_of_day=name == "until")


def _bound(value: Scalar) -> Scalar:
    """A value that SQLite accepts: an integer of more than 64 bits becomes a float."""
    if not isinstance(value, int) or -LARGEST <= value <= LARGEST:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _order(selection: Selection) -> str:
    terms = []
    for term in (selection.sort or "").split(",") if selection.sort else ():
        descending = term.strip().startswith("-")
        name = expression(column(term.strip().lstrip("-+"), "--sort"))
        terms.append(f"{name} IS NULL, {name} {'DESC' if descending else 'ASC'}")
    return f" ORDER BY {', '.join([*terms, NEWEST])}"


def _limit(selection: Selection) -> str:
    return f" LIMIT {min(selection.limit, LARGEST)}" if selection.limit is not None else ""
