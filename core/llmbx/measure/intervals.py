"""Confidence intervals of a mean over steps and over repeated runs, and of the change between two runs.

Neighboring steps of a run are correlated, so their interval comes from the `ar1` model; the means of repeated runs are
independent, so Student's t applies. Steps contain no information about the variation between runs: with repeated runs,
only their means are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from ..model import Value
from . import stats
from .student_t import quantile

LEVEL = 0.95


class Interval(Value, frozen=True):
    """A mean and its confidence interval at `level`, in the unit of the values.

    `effective_count` is the number of independent values that would give an interval of the same width, `correlation`
    is that of neighboring steps.
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
        """Half of the interval's width."""
        return (self.high - self.low) / 2


class Change(Value, frozen=True):
    """Relative change from A to B (0.05: B is 5 % larger), with its confidence interval."""

    fraction: float
    low: float
    high: float
    level: float
    over: Literal["steps", "repeats"]

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return not self.low <= 0 <= self.high


def over_steps(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of the mean over consecutive steps; None for fewer than two.

    Its coverage at `level` 0.95 is 93 to 97 of 100 for ten steps and more, and a correlation of neighbors from 0 to 0.7
    (to 0.9 from fifty steps on). With fewer than four steps the correlation cannot be estimated and is assumed to be 0.
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
    """A value without uncertainty: a published one, or a single step."""
    return Interval(mean=value, low=value, high=value, level=level, count=1, method="exact")


def change(a: Interval, b: Interval) -> Change:
    """The relative change from A to B, from the intervals of two single runs; means and upper limits must be > 0.

    The limits of the difference of logarithms are derived from those of the parts: the distances of each side's limits
    from its mean are added in quadrature (Zou and Donner, Statistics in Medicine 27, 2008).
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
    """The relative change from A's mean to B's, with repeats; None for fewer than three runs in total.

    Student's two-sample t test of the logarithms, with pooled variance, so that one new run can be compared with
    several runs of a baseline.
    """
    if not a or not b or len(a) + len(b) < 3:
        return None
    logs = [[math.log(value) for value in values] for values in (a, b)]
    means = [fmean(values) for values in logs]
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
    """A lower limit that has a logarithm: an interval that reaches 0 only says "far below"."""
    return max(low, mean * 1e-3)
