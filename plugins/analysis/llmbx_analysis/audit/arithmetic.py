"""Parse and evaluate printed equations such as `MFU = 128 * 4.74E+14 / 12.39 / 8 / 1979E+12 = 30.93%`."""

from __future__ import annotations

import ast
import math
import operator
import re
import string
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from itertools import pairwise

from llmbx.api import Value

MAX_LENGTH = 1000
"""Most characters of a statement that are read."""

MAX_EXPONENT = 16
"""Largest exponent that is evaluated."""

_SEPARATOR = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_UNIT = f"{string.ascii_letters}/"
_PLAIN = re.compile(r"[\d\s.eE+\-*/()]+")
_LITERAL = re.compile(r"-?[\d.]+(?:[eE][+-]?\d+)?")

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Equation(Value, frozen=True):
    """One equation: the value of its left side, and the number printed on its right side.

    `unit` is the size of the last printed digit.
    """

    value: float
    printed: float
    unit: float

    @property
    def holds(self) -> bool:
        """Whether the printed number is the value, rounded or truncated to its last digit."""
        lost, noise = abs(self.value) - abs(self.printed), 1e-9 * self.unit + 1e-12 * abs(self.value)
        rounded = abs(self.value - self.printed) <= 0.5 * self.unit + noise
        return rounded or (-noise <= lost < self.unit and self.value * self.printed >= 0)


def equations(text: str, formula: str | None = None) -> list[Equation]:
    """The equations in a printed statement: each number with the expression to the left of its `=`.

    Parts that are not arithmetic (names, sentences) are skipped. `formula` replaces the text left of the last number.
    """
    parts = [part.strip() for part in text[:MAX_LENGTH].split("=")]
    if formula is not None:
        parts = [formula, parts[-1]]
    printed = []
    for left, right in pairwise(parts):
        value, literal = evaluate(left), figure(right)
        if value is not None and literal is not None:
            printed.append(Equation(value=value, printed=literal[0], unit=literal[1]))
    return printed


def figure(text: str) -> tuple[float, float] | None:
    """Parse a printed number. Returns its value and the size of its last digit, or None.

    `30.93%` is (0.3093, 0.0001).
    """
    plain = _SEPARATOR.sub("", text.strip()).rstrip(_UNIT).rstrip()
    percent = plain.endswith("%")
    plain = plain.removesuffix("%").strip()
    if not _LITERAL.fullmatch(plain):
        return None
    try:
        number = Decimal(plain)
    except InvalidOperation:
        return None
    exponent, scale = number.as_tuple().exponent, 0.01 if percent else 1.0
    if not isinstance(exponent, int) or abs(exponent) > 300 or abs(number.adjusted()) > 300:
        return None
    return float(number) * scale, 10.0**exponent * scale


def evaluate(text: str) -> float | None:
    """Evaluate plain arithmetic: `+ - * / ^`, parentheses, and commas as thousands separators.

    Returns None if the text is not arithmetic or the value exceeds the range of a float.
    """
    plain = _SEPARATOR.sub("", text[:MAX_LENGTH]).replace("^", "**").strip()
    if not _PLAIN.fullmatch(plain):
        return None
    try:
        value = _node(ast.parse(plain, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None
    return value if math.isfinite(value) else None


def _node(node: ast.AST) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_node(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _node(node.left), _node(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) <= MAX_EXPONENT:
            return float(left**right)
        if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](left, right)
    raise ValueError("not arithmetic")
