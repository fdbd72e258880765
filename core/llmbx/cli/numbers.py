"""Parse numbers given on the command line."""

from __future__ import annotations

import math
import re
from typing import Any

import click

from ..errors import UsageError


class Above(click.FloatRange):
    """A finite number above `low`. `click.FloatRange` alone accepts nan, and inf if the range has no upper bound."""

    def __init__(self, low: float = 0, *, or_equal: bool = False) -> None:
        super().__init__(min=low, min_open=not or_equal)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the number. Raises `click.BadParameter` if it is out of range or not finite."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


class Minutes(click.types.IntParamType):
    """A time of at least a minute: minutes, or H:MM:SS or D-HH:MM:SS, rounded up to minutes."""

    name = "minutes"
    _TIME = re.compile(r"(?:(?P<days>\d{1,3})-)?(?P<hours>\d{1,5}):(?P<minutes>\d\d):(?P<seconds>\d\d)", re.ASCII)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the time. Raises `click.BadParameter` for anything else."""
        text = str(value)
        minutes = int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else 0
        if time := self._TIME.fullmatch(text):
            days, hours, whole, seconds = (int(part or 0) for part in time.groups())
            minutes = (days * 24 + hours) * 60 + whole + (seconds > 0)
        if minutes < 1:
            self.fail(f"{text!r} is not a time.", param, ctx)
        return minutes


def fraction(text: str, option: str) -> float:
    """Parse `5%` or `0.05` as 0.05. Raises `UsageError` for anything else, negative numbers and 1000 % or more."""
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().rstrip("%")) / (100 if percent else 1)
    except ValueError:
        raise UsageError(f"{option} {text!r}: expected a percentage such as 5%") from None
    if not 0 <= value < 10:
        raise UsageError(f"{option} {text!r}: expected a percentage such as 5%")
    return value
