"""The SQL condition of `--where`: SQLite parses it, and allows only what reads columns of a run.

Before that, columns (whose names contain dots) are quoted, and a few signs get the meaning that
docs/history.md describes: `=` and `!=` also compare missing values, `/` never truncates, and
`'text' IN column` finds a tag or a part of a text.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Callable

from llmbx.api import UsageError

from .columns import COLUMNS, column, expression, full_name, kind_of, quoted, unknown
from .timespec import add_times

MAX_LENGTH = 2000
"""Maximum length of a condition in characters."""

NESTED = 20
"""Parentheses around a condition when it is checked: more than in any query.

SQLite limits their depth.
"""

FUNCTIONS = {
    "abs",
    "coalesce",
    "glob",
    "instr",
    "json_extract",
    "length",
    "like",
    "lower",
    "max",
    "min",
    "round",
    "substr",
    "trim",
    "upper",
}
"""Functions that a condition may call. None returns much more than it is given."""

_TEXT = r"""'(?:[^']|''){0,2000}'|"(?:[^"]|""){0,2000}\""""
_NAME = r"[^\W\d][\w.]*(?![\w.]|\s*\()"
_COMPARISON = r"(?:<>|[<>=!]=?)"
_PART = re.compile(
    rf"""(?P<part>{_TEXT})\s+(?P<absent>not\s+)?in\s+(?P<whole>{_NAME})
    | (?P<name>{_NAME})(?=(?:\s*{_COMPARISON}\s*(?P<compared>{_TEXT}))?)
    | (?P<text>{_TEXT})
    | (?P<sign>==|!=|<>|(?<![<>])=|/)
    | [\w.]+""",
    re.VERBOSE | re.IGNORECASE,
)
_SIGNS = {"=": "IS", "==": "IS", "!=": "IS NOT", "<>": "IS NOT", "/": "* 1.0 /"}
_CLAUSES = re.compile(r"\b(?:and|or|case|when|then|else)\b|[(),]", re.IGNORECASE)
_NUMBER = re.compile(r"""['"]\s*[-+]?[0-9.]+(e[-+]?[0-9]+)?\s*['"]""", re.IGNORECASE)
NUMERAL = "'0'"
_NUMBERS = ("number", "count", "flag")
_COMPARED = {
    "text": "CAST({} AS TEXT)",
    "words": "trim({})",
    "date": "(CAST({} AS TEXT) COLLATE time)",
    **dict.fromkeys(_NUMBERS, "CAST({} AS NUMERIC)"),
}
"""A column in a condition, by kind: with `CAST`, SQLite converts what it is compared with."""


@functools.lru_cache
def condition(text: str) -> str:
    """The SQL of a condition, in parentheses. Raises `UsageError` if the condition is invalid."""
    if len(text) > MAX_LENGTH:
        raise _wrong(f"longer than {MAX_LENGTH} characters")
    for clause in _CLAUSES.split(re.sub(_TEXT, "''", text)):
        if len(re.findall(_COMPARISON, clause)) > 1:
            written = "write `8 <= gpus AND gpus < 64`"
            raise _wrong(f"`{clause.strip()}` compares twice: {written}")
    sql = _PART.sub(_translated, text)
    _check(sql)
    return f"({sql}\n)"  # a comment ends with the line


def _translated(part: re.Match[str]) -> str:
    if part["part"]:
        return _contained(part)
    if part["name"]:
        return _named(part["name"], part["compared"] or NUMERAL)
    if part["text"]:
        return _string(part["text"])
    return f" {_SIGNS[part['sign']]} " if part["sign"] else part[0]


def _string(shown: str) -> str:
    """A string in quotes as SQL; in double quotes it may also be a column, as in SQLite."""
    value = shown[1:-1].replace(shown[0] * 2, shown[0])
    if shown[0] == '"' and full_name(value):
        return _named(value)
    return "'" + value.replace("'", "''") + "'"


def _contained(part: re.Match[str]) -> str:
    """`'text' [NOT] IN column`: whether the tags, or the text, contain it."""
    whole, text = column(part["whole"], "--where"), _string(part["part"])
    kind = kind_of(whole)
    if kind not in ("text", "words"):
        expected = "expected a string, IN, and a list in parentheses, tags or a text column"
        raise _wrong(f"`{part[0]}`: {expected}")
    word = f"' ' || {text} || ' '" if kind == "words" else text
    sign = "=" if part["absent"] else ">"
    return f"(coalesce(instr({expression(whole)}, {word}), 0) {sign} 0)"


def _named(name: str, compared: str = NUMERAL) -> str:
    """A column as SQL, and other words as they are; `compared` is what it is compared with."""
    if name.upper() == "NONE":
        return "NULL"
    full = column(name, "--where") if "." in name else full_name(name)
    if full is None:
        return name
    if kind_of(full) in _NUMBERS and not _NUMBER.fullmatch(compared):
        raise _wrong(f"{name} is not text, and is compared with {compared}")
    return _COMPARED[kind_of(full)].format(expression(full))


def _check(sql: str) -> None:
    """Raise `UsageError` unless SQLite parses this as one expression that only reads columns.

    What parses both alone and in parentheses is one expression: it closes no parenthesis that it
    does not open. The table has one run, because times are read when they are compared.
    """
    import sqlite3

    run = {
        name: name if column.kind in ("text", "words") else 0.0 for name, column in COLUMNS.items()
    }
    run["measures"] = "{}"
    wrong_times: list[UsageError] = []
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        add_times(db, wrong_times)
        names = ", ".join(map(quoted, run))
        db.execute(f"CREATE TABLE runs ({names}, PRIMARY KEY (id)) WITHOUT ROWID")
        db.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(run))})", [*run.values()])
        nested = f"{'(' * NESTED}{sql}\n{')' * NESTED}"
        for query in (f"SELECT 1 FROM runs WHERE {sql}", f"SELECT {nested} FROM runs"):
            db.set_authorizer(_reader())
            try:
                db.execute(query).fetchall()
            except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
                raise _rejected(str(error)) from None
    if wrong_times:
        raise wrong_times[0]


def _reader() -> Callable[..., int]:
    """An authorizer of one query without another inside: it reads `runs` and calls `FUNCTIONS`."""
    import sqlite3

    queries = itertools.count()

    def allow(action: int, first: str | None, second: str | None, *_: object) -> int:
        allowed = (
            (action == sqlite3.SQLITE_READ and first == "runs")
            or (action == sqlite3.SQLITE_FUNCTION and second in FUNCTIONS)
            or (action == sqlite3.SQLITE_SELECT and next(queries) == 0)
        )
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    return allow


def _rejected(why: str) -> UsageError:
    name = why.removeprefix("no such column: ")
    if name != why:
        return UsageError(f"{unknown(name, '--where')}; a string needs quotes: '{name}'")
    return _wrong(f"SQLite rejects it: {why}")


def _wrong(why: str) -> UsageError:
    return UsageError(f"--where: {' '.join(why.split())}")
