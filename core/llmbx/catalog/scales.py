"""Scales (numbers of GPUs) and expressions of them: "128-1024", "GPUs*2"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import UsageError

ANY = "any"
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_EXPRESSION = re.compile(r"(?:GPUs(?:([*/])(\d+))?|(\d+))")


def scales(texts: Iterable[str]) -> tuple[int, ...]:
    """The numbers of GPUs in `texts`, ascending; "any" adds none.

    "512" is one scale; "128-1024" doubles from the first to the last: 128, 256, 512, 1024. Raises `UsageError` for
    anything else, and for a range whose end is not reached by doubling.
    """
    return tuple(sorted({count for text in texts if text != ANY for count in _expand(text)}))


def admits(texts: Iterable[str], gpus: int) -> bool:
    """Whether `texts` contain the scale `gpus`; "any" contains every number from 1."""
    allowed = tuple(texts)
    return gpus >= 1 and (ANY in allowed or gpus in scales(allowed))


def evaluate(expression: int | str, gpus: int) -> int:
    """The value of a number or an expression ("GPUs", "GPUs*N", "GPUs/N", "N") at a scale.

    Raises `UsageError` for an invalid expression, or if the value is not an integer.
    """
    if isinstance(expression, int):
        return expression
    match = _EXPRESSION.fullmatch(expression.replace(" ", ""))
    if match is None:
        raise UsageError(f"'{expression}' is not a valid expression: expected GPUs, GPUs*N, GPUs/N or a number")
    operator, operand, number = match[1], int(match[2] or 1), match[3]
    if number is not None:
        return int(number)
    if operator != "/":
        return gpus * operand
    if operand == 0 or gpus % operand:
        raise UsageError(f"'{expression}' is not an integer for {gpus} GPUs: use a multiple of {operand}")
    return gpus // operand


def _expand(text: str) -> list[int]:
    match = _RANGE.fullmatch(text)
    first = int(match[1]) if match else 0
    if match is None or first < 1:
        raise UsageError(f"'{text}' is not a valid scale: expected a number, FIRST-LAST (doubling) or '{ANY}'")
    last, counts = int(match[2] or first), [first]
    while counts[-1] < last:
        counts.append(counts[-1] * 2)
    if counts[-1] != last:
        raise UsageError(f"'{text}' is not a valid scale: doubling {first} does not reach {last}")
    return counts
