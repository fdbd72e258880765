"""What a mean hides: a shift of the median or of the slowest steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from llmbx.api import Value, median_of

from .comparison import Metric, Verdict
from .measured import Measured, times
from .metrics import metric


class Shape(Value, frozen=True):
    """The step times of one side in seconds: means over its runs of the median and the 95th percentile.

    `slowest` is the largest ratio of a step to the median of its run.
    """

    median_s: float
    p95_s: float
    slowest: float

    @property
    def tail(self) -> float:
        """The 95th percentile as a multiple of the median."""
        return self.p95_s / self.median_s


def shape(runs: Sequence[Measured]) -> Shape | None:
    """The shape of one side; None if a run has no measured steps."""
    medians, high, slowest = [], [], []
    for values in map(times, runs):
        middle = median_of(values)
        if not middle:
            return None
        medians.append(middle)
        high.append(percentile(values, 0.95))
        slowest.append(max(values) / middle)
    if not medians:
        return None
    return Shape(median_s=math.fsum(medians) / len(medians), p95_s=math.fsum(high) / len(high), slowest=max(slowest))


def percentile(values: Sequence[float], fraction: float) -> float:
    """The percentile of at least one value, interpolated between the two nearest."""
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def shape_metrics(a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[Metric]:
    """The rows of the table; none if a side has no steps."""
    one, two = shape(a), shape(b)
    if one is None or two is None:
        return
    yield metric("median_step_time", "s", "lower", one.median_s, two.median_s)
    yield metric("p95_step_time", "s", "lower", one.p95_s, two.p95_s)
    yield metric("p95_to_median", "ratio", "lower", one.tail, two.tail)
    yield metric("slowest_to_median", "ratio", "lower", one.slowest, two.slowest)


def hidden(verdict: Verdict, a: Sequence[Measured], b: Sequence[Measured], tolerance: float) -> str | None:
    """Why the means may not be called equivalent or faster: the median or the tail differs by more than `tolerance`.

    For `faster` only a slower median or tail counts.
    """
    one, two = shape(a), shape(b)
    if one is None or two is None or verdict not in ("equivalent", "faster"):
        return None
    for name, before, after in (
        ("median", one.median_s, two.median_s),
        ("95th percentile", one.p95_s, two.p95_s),
        ("tail (95th percentile / median)", one.tail, two.tail),
    ):
        change = after / before - 1
        if change > tolerance or (verdict == "equivalent" and change < -tolerance):
            unit = "" if name.startswith("tail") else " s"
            return (
                f"the mean hides a difference: the {name} of the step times changes by {100 * change:+.1f} % "
                f"(A {before:.4g}{unit}, B {after:.4g}{unit})"
            )
    return None


def disagreement(verdict: Verdict, a: Sequence[Measured], b: Sequence[Measured], tolerance: float) -> Iterator[str]:
    """A warning if B is slower by its mean, but not by its median: a few steps make the difference."""
    one, two = shape(a), shape(b)
    if one is None or two is None or verdict != "slower":
        return
    change = two.median_s / one.median_s - 1
    if change <= tolerance:
        yield f"the median of the step times changes by only {100 * change:+.1f} %: a part of the steps is slower"
