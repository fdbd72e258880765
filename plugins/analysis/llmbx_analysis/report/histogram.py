"""Histograms of step times: one side, or two sides over the same bars."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from llmbx.api import Point

BARS = (5, 30)
"""Least and largest number of bars."""

WIDTHS = "bar width by Freedman and Diaconis, 2 × IQR / n^(1/3)"


def bars(ordered: Sequence[float]) -> tuple[Point, ...]:
    """Histogram of sorted values that are not all equal. Bars are half-open; only the last one includes its end."""
    edges = _edges(ordered[0], ordered[-1], _width(ordered))
    return tuple(
        Point(x=edges[k], until=edges[k + 1], y=float(count)) for k, count in enumerate(_counts(ordered, edges))
    )


def shared_bars(sides: Sequence[Sequence[float]]) -> list[tuple[Point, ...]]:
    """Histograms of several sides over the same edges, in percent of the values of each side, without empty bars.

    The sides are sorted and not empty, and not all values are equal.
    """
    widths = [_width(side) for side in sides]
    edges = _edges(
        min(side[0] for side in sides), max(side[-1] for side in sides), min(filter(None, widths), default=0)
    )
    return [
        tuple(
            Point(x=edges[k], until=edges[k + 1], y=100 * count / len(side))
            for k, count in enumerate(_counts(side, edges))
            if count
        )
        for side in sides
    ]


def _width(ordered: Sequence[float]) -> float:
    """The width of a bar; 0 if the middle half of the values is equal."""
    n = len(ordered)
    return 2 * (ordered[(3 * n) // 4] - ordered[n // 4]) / math.cbrt(n)


def _edges(low: float, high: float, width: float) -> list[float]:
    few, many = BARS
    bars = (high - low) / width if width > 0 else few  # infinite if one value is beyond all others
    count = math.ceil(min(many, max(few, bars)))
    return [low + (high - low) * (k / count) for k in range(count)] + [high]


def _counts(ordered: Sequence[float], edges: Sequence[float]) -> list[int]:
    counts = [0] * (len(edges) - 1)
    for value in ordered:
        counts[min(len(counts), bisect_right(edges, value)) - 1] += 1
    return counts
