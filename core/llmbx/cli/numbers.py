"""Numbers as users type them on the command line."""

from __future__ import annotations

import math
from typing import Any

import click

from ..errors import UsageError


class Above(click.FloatRange):
    """A finite number above `low`: nan, which compares with nothing, would pass any range, and inf any that is open."""

    def __init__(self, low: float = 0, *, or_equal: bool = False) -> None:
        super().__init__(min=low, min_open=not or_equal)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails as click's own types do."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return found


def fraction(text: str, option: str) -> float:
    """`5%` or `0.05` as 0.05. Raises `UsageError` for anything else, and for a negative number."""
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().rstrip("%")) / (100 if percent else 1)
    except ValueError:
        raise UsageError(f"{option} {text!r}: expected a percentage such as 5%") from None
    if not 0 <= value < 10:
        raise UsageError(f"{option} {text!r}: expected a percentage such as 5%")
    return value
