"""Check the SQL condition of `--where` and bind its strings. SQLite parses it.

Only columns, literals and operators are passed on, so that a condition cannot call a function, name another table,
contain a query or a second statement, or take long. Differences from plain SQL: names of columns contain dots, `=` and
`!=` also compare missing values, `/` never truncates, a string that is compared with a date is a date, and
`'text' IN column` finds a tag or a substring.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..errors import UsageError, did_you_mean
from ..model import Scalar
from .columns import COLUMNS, expression, full_name, kind_of, known_names
from .index import quoted
from .timespec import parse_time

MAX_LENGTH = 2000
"""Maximum length of a condition in characters."""

_TEXT = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_NAME = r"[^\W\d][\w.]*"
_TOKEN = re.compile(rf"""\s*(?:
    (?P<contained>(?P<part>{_TEXT}|{_NAME})\s+(?P<absent>not\s+)?in\s+(?P<whole>{_NAME}))
  | (?P<text>{_TEXT})
  | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
  | (?P<name>{_NAME})
  | (?P<sign><=|>=|==|!=|<>|[-+*/%<>=(),])
  | (?P<end>\Z)
)""", re.VERBOSE | re.IGNORECASE)  # fmt: skip
_WORDS = {"AND", "OR", "NOT", "NULL", "NONE", "TRUE", "FALSE", "IS", "IN", "LIKE", "GLOB", "BETWEEN"}
_SQL = {"=": "IS", "==": "IS", "!=": "IS NOT", "<>": "IS NOT", "/": "* 1.0 /", "NONE": "NULL"}
_COMPARISONS = {"<", "<=", ">", ">=", "IS", "IS NOT", "IN", "LIKE", "GLOB", "BETWEEN"}
_ADVICE = {**dict.fromkeys("&|", "use AND and OR to combine conditions"), "[": "write a list in parentheses",
           **dict.fromkeys("'\"", "the closing quote is missing"),
           **dict.fromkeys("0123456789", "a string needs quotes")}  # fmt: skip


class Token(NamedTuple):
    """A part of the condition as it was written, and its SQL, bound values and kind of value."""

    shown: str
    sql: str
    values: tuple[Scalar, ...] = ()
    kind: str = ""


def condition(text: str) -> tuple[str, tuple[Scalar, ...]]:
    """The SQL of a condition, in parentheses, and its values. Raises `UsageError` if the condition is invalid."""
    if len(text) > MAX_LENGTH:
        raise _wrong(f"longer than {MAX_LENGTH} characters")
    tokens = [token for clause in _clauses(_tokens(text)) for token in _checked(clause)]
    sql = " ".join(token.sql for token in tokens)
    values = tuple(value for token in tokens for value in token.values)
    _parse(sql, values)
    return f"({sql})", values


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while (found := _TOKEN.match(text, place)) and found.lastgroup != "end":
        place = found.end()
        yield _token(found)
    if not found:
        rest = text[place:].split()[0][:40]
        raise _wrong(f"unexpected {rest!r}: {_ADVICE.get(rest[0], 'not part of a condition')}")


def _token(found: re.Match[str]) -> Token:
    shown = found[found.lastgroup or 0]
    if found.lastgroup == "contained":
        return _contained(found)
    if found.lastgroup in ("text", "name"):
        return _operand(shown)
    return Token(shown, _SQL.get(shown, shown), (), "number" if found.lastgroup == "number" else "")


def _contained(found: re.Match[str]) -> Token:
    """`'text' [NOT] IN column` as one token: whether the tags, or the text, contain it."""
    part, whole = _operand(found["part"]), _operand(found["whole"])
    if part.kind != "text" or whole.kind not in ("text", "words"):
        raise _wrong(f"`{found['contained']}`: expected a string, IN, and a list in parentheses, tags or a text column")
    word = f"' ' || {part.sql} || ' '" if whole.kind == "words" else part.sql
    sign = "=" if found["absent"] else ">"
    return Token(found["contained"], f"(coalesce(instr({whole.sql}, {word}), 0) {sign} 0)", part.values)


def _operand(shown: str) -> Token:
    """The token of a string, in quotes of either kind, or of a column or word."""
    if shown[0] in "'\"":
        value = shown[1:-1].replace(shown[0] * 2, shown[0])
        if shown[0] == '"' and full_name(value):
            raise _wrong(f"{shown} is a column: write {value}, or '{value}' for the string")
        return Token(shown, "?", (value,), "text")
    word = shown.upper()
    if word in _WORDS:
        return Token(shown, _SQL.get(word, word))
    column = full_name(shown)
    if column is None:
        quotes = f"; a string needs quotes: '{shown}'" if "." not in shown else ""
        raise _wrong(f"no column named '{shown}'{hint(shown)}{quotes}")
    return Token(shown, expression(column), (), kind_of(column))


def _clauses(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """The tokens split at each AND and OR, which are clauses of their own, but not at the AND of BETWEEN."""
    clause: list[Token] = []
    between = False
    for token in tokens:
        if token.sql == "OR" or (token.sql == "AND" and not between):
            yield clause
            yield [token]
            clause = []
        else:
            clause.append(token)
        between = token.sql == "BETWEEN" or (between and token.sql != "AND")
    yield clause


def _checked(clause: list[Token]) -> list[Token]:
    """A clause with its dates as epoch seconds. Raises `UsageError` for what SQL takes for something else."""
    shown = " ".join(token.shown for token in clause)
    comparisons = [token.sql for token in clause if token.sql in _COMPARISONS]
    if len(comparisons) > 1:
        raise _wrong(f"`{shown}` compares twice: write `8 <= gpus AND gpus < 64`")
    if any(token.sql == "NULL" for token in clause) and not {"IS", "IS NOT"} & {*comparisons}:
        raise _wrong(f"`{shown}` is never true: only =, !=, IS and IS NOT compare with NULL")
    if any(token.kind == "date" for token in clause):
        clause = [_date(token) if token.sql == "?" else token for token in clause]
    kinds = {token.kind for token in clause} - {""}
    if "words" in kinds:
        raise _wrong("tags cannot be compared: use `'accepted' IN tags`")
    if "text" in kinds and kinds != {"text"}:
        raise _wrong(f"`{shown}` compares a string with a number")
    if comparisons or not kinds:
        return clause
    if kinds != {"flag"}:
        raise _wrong(f"`{shown}` is not a condition: compare it with a value")
    return [token._replace(sql=f"({token.sql} IS TRUE)") if token.kind else token for token in clause]


def _date(token: Token) -> Token:
    return token._replace(values=(parse_time(str(token.values[0]), "--where"),), kind="date")


def _parse(sql: str, values: tuple[Scalar, ...]) -> None:
    """Raise `UsageError` if SQLite rejects the condition alone, or nested in a longer one as a query has it."""
    import sqlite3

    row = ", ".join(f"NULL AS {quoted(name)}" for name in COLUMNS)
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        for nested in (sql, f"1 AND (1 AND (1 AND ({sql})))"):
            try:
                db.execute(f"SELECT 1 FROM (SELECT {row}) WHERE {nested}", values)
            except (sqlite3.Error, UnicodeError) as error:
                raise _wrong(f"SQLite cannot parse it: {error}") from None


def hint(name: str) -> str:
    """The closest column, or where to find all of them."""
    near = did_you_mean(name, known_names())
    return near if near.startswith(" (did") else " (see `llmbx jobs --help` for the columns)"


def _wrong(why: str) -> UsageError:
    return UsageError(f"--where: {' '.join(why.split())}")
