"""How sure a figure is: intervals of a mean over steps and over repeats, and of the change from one run to another.

Over the steps of one run neighbours resemble each other, so the interval comes from `ar1`; over repeats of a run the
means are independent and Student's t applies. Steps say nothing of how runs differ from each other: where there are
repeats, only their means count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from ..model import Value
from . import stats
from .student_t import quantile

LEVEL = 0.95


class Interval(Value, frozen=True):
    """A mean and the interval that holds the true one with probability `level`, in the unit of the values.

    `effective_count` is how many independent values would give an interval as narrow, `correlation` that of
    neighbouring steps.
    """

    mean: float
    low: float
    high: float
    level: float
    count: int
    method: Literal["ar1", "student", "exact"]
    effective_count: float | None = None
    correlation: float | None = None

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2


class Change(Value, frozen=True):
    """By which fraction B differs from A (0.05: B is 5 % larger), with its interval."""

    fraction: float
    low: float
    high: float
    level: float
    over: Literal["steps", "repeats"]

    @property
    def significant(self) -> bool:
        """Whether the interval leaves no change out."""
        return not self.low <= 0 <= self.high


def over_steps(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of the mean over consecutive steps; None for fewer than two.

    Its coverage is 93 to 97 of 100 for a `level` of 0.95, ten steps and more, and a correlation of neighbours from 0 to
    0.7 (to 0.9 from fifty steps on). Below four steps their correlation cannot be seen and is taken to be none.
    """
    from . import autoregression

    plain, mixture = over_repeats(values, level), autoregression.mean(values)
    if plain is None or mixture is None:
        return plain
    low, high = mixture.quantile((1 - level) / 2), mixture.quantile((1 + level) / 2)
    narrowed = (2 * plain.half_width / (high - low)) ** 2
    return Interval(
        mean=plain.mean,
        low=low,
        high=high,
        level=level,
        count=len(values),
        method="ar1",
        effective_count=len(values) * min(1.0, narrowed),
        correlation=mixture.correlation,
    )


def over_repeats(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of the mean of independent values by Student's t; None for fewer than two."""
    middle, spread = stats.mean(values), stats.sample_std(values)
    if middle is None or spread is None:
        return None
    count = len(values)
    half = spread / math.sqrt(count) * quantile((1 + level) / 2, count - 1)
    return Interval(
        mean=middle,
        low=middle - half,
        high=middle + half,
        level=level,
        count=count,
        method="student",
        effective_count=float(count),
    )


def exact(value: float, level: float = LEVEL) -> Interval:
    """A figure that is taken as it stands: a published one, or a single step."""
    return Interval(mean=value, low=value, high=value, level=level, count=1, method="exact")


def change(a: Interval, b: Interval) -> Change:
    """How B differs from A, from the intervals of two single runs; means and limits above 0.

    The limits of the difference of logarithms are recovered from those of the parts: each side's distances from its
    mean are added as squares (Zou and Donner, Statistics in Medicine 27, 2008).
    """
    logs = [(math.log(x.mean), math.log(_positive(x.low, x.mean)), math.log(x.high)) for x in (a, b)]
    (mean_a, low_a, high_a), (mean_b, low_b, high_b) = logs
    difference = mean_b - mean_a
    return Change(
        fraction=math.expm1(difference),
        low=math.expm1(difference - math.hypot(mean_b - low_b, high_a - mean_a)),
        high=math.expm1(difference + math.hypot(high_b - mean_b, mean_a - low_a)),
        level=a.level,
        over="steps",
    )


def change_of_repeats(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Change | None:
    """How B's mean differs from A's when either was repeated; None for fewer than three runs in all.

    Student's two-sample t of the logarithms, with one spread for both, so that one new run can be held against several
    of a baseline.
    """
    if not a or not b or len(a) + len(b) < 3:
        return None
    logs = [[math.log(value) for value in values] for values in (a, b)]
    means = [math.fsum(values) / len(values) for values in logs]
    squares = math.fsum((v - m) ** 2 for values, m in zip(logs, means, strict=True) for v in values)
    dof = len(a) + len(b) - 2
    half = math.sqrt(squares / dof * (1 / len(a) + 1 / len(b))) * quantile((1 + level) / 2, dof)
    difference = means[1] - means[0]
    return Change(
        fraction=math.expm1(difference),
        low=math.expm1(difference - half),
        high=math.expm1(difference + half),
        level=level,
        over="repeats",
    )


def _positive(low: float, mean: float) -> float:
    """A lower limit that has a logarithm: an interval so wide that it reaches 0 says no more than "far below"."""
    return max(low, mean * 1e-3)
