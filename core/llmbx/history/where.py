"""Translate the condition of `--where`, in Python syntax, into SQL with bound values. No part of it is executed.

Allowed are column names, numbers, quoted strings, True, False, None; comparisons (also chained, `in` and `not in`),
`and`, `or`, `not`; + - * / and parentheses. Missing values match only `!=` and `== None`.
"""

from __future__ import annotations

import ast
import warnings
from typing import NamedTuple

from ..errors import UsageError, did_you_mean
from ..model import Scalar
from .columns import COLUMNS, full_name, known_names
from .index import quoted
from .timespec import parse_time

MAX_LENGTH = 2000
"""Maximum length of a condition in characters."""

MAX_NODES = 400
"""Maximum number of syntax nodes in a condition; SQLite limits the depth to 1000."""

_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "IS", ast.NotEq: "IS NOT",
            ast.Is: "IS", ast.IsNot: "IS NOT"}  # fmt: skip
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SUMS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class Term(NamedTuple):
    """A part of the condition: SQL, its bound values, and its kind (None: compatible with every kind)."""

    sql: str
    values: tuple[Scalar, ...] = ()
    kind: str | None = None


def condition(text: str) -> tuple[str, tuple[Scalar, ...]]:
    """The SQL of a condition and its values. Raises `UsageError` if the condition is invalid."""
    if len(text) > MAX_LENGTH:
        raise UsageError(f"--where: longer than {MAX_LENGTH} characters")
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text.strip(), mode="eval")
        if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
            raise _wrong(f"more than {MAX_NODES} terms")
        term = _truth(tree.body)
    except SyntaxError as error:
        raise _wrong(_syntax(text, error)) from None
    except (ValueError, RecursionError, MemoryError):
        raise _wrong("too deeply nested, or not valid text") from None
    return term.sql, term.values


def _syntax(text: str, error: SyntaxError) -> str:
    bare = text.replace("==", "").replace("<=", "").replace(">=", "").replace("!=", "")
    if "=" in bare:
        return "use == for equality"
    if "&&" in text or "||" in text:
        return "use `and` and `or` to combine conditions"
    return f"{error.msg or 'invalid syntax'} at character {error.offset or 1}: {' '.join(text.split())[:60]}"


def _truth(node: ast.expr) -> Term:
    """A term that is true or false."""
    if isinstance(node, ast.BoolOp):
        word = " AND " if isinstance(node.op, ast.And) else " OR "
        return _joined(word, [_truth(part) for part in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(node.operand)
        return Term(f"(NOT coalesce({inner.sql}, 0))", inner.values, "flag")
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        steps = zip(sides, node.ops, sides[1:], strict=False)
        return _joined(" AND ", [_compared(a, op, b) for a, op, b in steps])
    term = _term(node)
    if term.kind not in ("flag", None) or term.values == (None,):
        raise _wrong(f"`{ast.unparse(node)}` is not a condition: compare it with a value")
    return term


def _joined(word: str, parts: list[Term]) -> Term:
    values = tuple(value for part in parts for value in part.values)
    return Term(f"({word.join(part.sql for part in parts)})", values, "flag")


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Term:
    if isinstance(op, ast.In | ast.NotIn):
        found = _contained(left, right)
        return Term(f"(NOT coalesce({found.sql}, 0))", found.values, "flag") if isinstance(op, ast.NotIn) else found
    a, b = _matched(_term(left), _term(right), f"{ast.unparse(left)} and {ast.unparse(right)}")
    if "words" in (a.kind, b.kind):
        raise _wrong("tags cannot be compared: use `'accepted' in tags`")
    if isinstance(op, _ORDER) and (None,) in (a.values, b.values):
        raise _wrong("None has no order: use == or !=")
    return Term(f"({a.sql} {_COMPARE[type(op)]} {b.sql})", (*a.values, *b.values), "flag")


def _contained(left: ast.expr, right: ast.expr) -> Term:
    """`x in (…)`, a tag in `tags`, or a substring of a text column."""
    if isinstance(right, ast.Tuple | ast.List | ast.Set):
        ones = [_compared(left, ast.Eq(), item) for item in right.elts]
        return _joined(" OR ", ones) if ones else Term("(0)", (), "flag")
    inside, whole = _term(left), _term(right)
    if whole.kind == "words" and inside.kind == "text":
        return _has(inside, whole)
    if whole.kind == "text" and inside.kind == "text":
        return Term(f"(instr({whole.sql}, {inside.sql}) > 0)", (*whole.values, *inside.values), "flag")
    raise _wrong(f"`in` cannot search `{ast.unparse(right)}`: expected a list, tags, or a text column")


def _has(tag: Term, tags: Term) -> Term:
    return Term(f"(instr({tags.sql}, ' ' || {tag.sql} || ' ') > 0)", (*tags.values, *tag.values), "flag")


def _matched(a: Term, b: Term, what: str) -> tuple[Term, Term]:
    """Both sides with the same kind: a date in quotes becomes epoch seconds. Raises `UsageError` for kinds that cannot
    be compared.
    """
    if a.kind == "date" and b.kind == "text":
        b = _as_time(b)
    if b.kind == "date" and a.kind == "text":
        a = _as_time(a)
    kinds = {"number" if term.kind in ("count", "date") else term.kind for term in (a, b)} - {None}
    if kinds == {"words", "text"} or len(kinds) < 2:
        return a, b
    raise _wrong(f"{what} cannot be compared: one is {_name(a.kind)}, the other {_name(b.kind)}")


def _as_time(term: Term) -> Term:
    if len(term.values) != 1:
        raise _wrong("compare a date with a date in quotes")
    text = term.values[0]
    return Term("?", (parse_time(str(text), "--where"),), "date")


def _name(kind: str | None) -> str:
    return {"text": "a string", "flag": "a boolean", "words": "a list of tags"}.get(kind or "", "a number")


def _term(node: ast.expr) -> Term:
    """A term with a value."""
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, ast.Name | ast.Attribute):
        return _column(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return Term(f"(- {inner.sql})", inner.values, "number")
    if isinstance(node, ast.BinOp) and type(node.op) in _SUMS:
        a, b = _number(node.left), _number(node.right)
        left = f"1.0 * {a.sql}" if isinstance(node.op, ast.Div) else a.sql
        return Term(f"({left} {_SUMS[type(node.op)]} {b.sql})", (*a.values, *b.values), "number")
    if isinstance(node, ast.Compare | ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return _truth(node)
    raise _wrong(f"`{ast.unparse(node)[:60]}` is not supported: use columns, numbers, quoted strings and comparisons")


def _number(node: ast.expr) -> Term:
    term = _term(node)
    if term.kind not in ("number", "count", "date"):
        raise _wrong(f"`{ast.unparse(node)}` is not a number")
    return term


def _constant(value: object) -> Term:
    if value is None:
        return Term("?", (None,))
    if isinstance(value, bool):
        return Term("?", (value,), "flag")
    if isinstance(value, int) and abs(value) >= 2**63:
        value = float(value) if abs(value) < 10**300 else float("inf")
    if isinstance(value, int | float):
        return Term("?", (value,), "number")
    if isinstance(value, str) and value.isprintable():
        return Term("?", (value,), "text")
    raise _wrong(f"`{str(value)[:40]}` is neither a number nor a printable string")


def _column(node: ast.Name | ast.Attribute) -> Term:
    name = ast.unparse(node)
    column = full_name(name)
    if column is None:
        word = f"; a string needs quotes: '{name}'" if isinstance(node, ast.Name) else ""
        raise _wrong(f"no column named '{name}'{hint(name)}{word}")
    return Term(quoted(column), (), COLUMNS[column])


def hint(name: str) -> str:
    """The closest column, or where to find all of them."""
    near = did_you_mean(name, known_names())
    return near if near.startswith(" (did") else " (see `llmbx jobs --help` for the columns)"


def _wrong(why: str) -> UsageError:
    return UsageError(f"--where: {why}")
