"""Numbers as options take them."""

from __future__ import annotations

import math
from typing import Any

import click


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
