"""Confidence intervals of a mean over steps and over repeated runs, and of the change between two runs.

Neighboring steps of a run are correlated, so their interval comes from the `ar1` model; the means of repeated runs are
independent, so Student's t applies. Steps contain no information about the variation between runs: with one run on each
side, the spread of `run_variation` is added, with repeated runs only their means are used, and with alternating runs
only the differences of the pairs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from llmbx.api import Value, mean_of, median_of, summary_of

from .run_variation import PUBLISHED, SAME, SCALE, Spread
from .student_t import quantile

LEVEL = 0.95

FAR = 3 * 1.4826
"""Three standard deviations of normally distributed values, in median absolute deviations."""

MEDIAN_TO_MEAN = math.sqrt(math.pi / 2)
"""The standard error of the median of normally distributed values, as a multiple of that of their mean."""


class Interval(Value, frozen=True):
    """A mean (with the method `median`: a median) and its confidence interval at `level`, in the unit of the values.

    `effective_count` is the number of independent values that would give an interval of the same width, `correlation`
    is that of neighboring steps.
    """

    mean: float
    low: float
    high: float
    level: float
    count: int
    method: Literal["ar1", "student", "exact", "rounded", "median"]
    effective_count: float | None = None
    correlation: float | None = None

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


class Change(Value, frozen=True):
    """Relative change from A to B (0.05: B is 5 % larger), with its confidence interval.

    `over` is what the interval was computed from: the steps of one run on each side, the means of repeated runs, or the
    differences of pairs of runs. `run_std` is the standard deviation of one run (of one pair) that the interval
    implies, `prior` the half-width that the spread of `run_variation` contributes; both are fractions. `prior_runs` is
    the number of earlier runs that this spread was learned from; 0: published repeats only.
    """

    fraction: float
    low: float
    high: float
    level: float
    over: Literal["steps", "repeats", "pairs"]
    run_std: float | None = None
    prior: float = 0.0
    prior_runs: int = 0

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return not self.low <= 0 <= self.high


def over_steps(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of the mean over consecutive steps; None for fewer than two.

    Its coverage at `level` 0.95 is 93 to 97 of 100 for ten steps and more, and a correlation of neighbors from 0 to 0.7
    (to 0.9 from fifty steps on). With fewer than four steps the correlation cannot be estimated and is assumed to be 0.
    """
    return _over_steps(tuple(values), level)


@functools.lru_cache(maxsize=64)  # reports and comparisons show the same interval in several places
def _over_steps(values: tuple[float, ...], level: float) -> Interval | None:
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


def median_over_steps(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of the median over consecutive steps, which single slow steps do not move; None for fewer than two.

    Steps beyond three standard deviations (by the median deviation) are moved to this limit, and the interval of the
    mean of the result is widened as the median of normally distributed values is less certain than their mean; it
    stays within the values. Its coverage at `level` 0.95 is 94 of 100 and more for eight steps and more, a correlation
    of neighbors up to 0.7, and also if a tenth of the steps is slow.
    """
    middle = median_of(values)
    if middle is None:
        return None
    limit = FAR * (median_of([abs(value - middle) for value in values]) or 0.0)
    near = over_steps([min(max(value, middle - limit), middle + limit) for value in values], level)
    if near is None:
        return None
    return near.replace(
        mean=middle,
        low=max(min(values), middle - MEDIAN_TO_MEAN * (near.mean - near.low)),
        high=min(max(values), middle + MEDIAN_TO_MEAN * (near.high - near.mean)),
        method="median",
    )


def over_repeats(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """The interval of the mean of independent values by Student's t; None for fewer than two."""
    middle, spread = mean_of(values), summary_of(values)["std"]
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
    """A value whose uncertainty is not known: a single step."""
    return Interval(mean=value, low=value, high=value, level=level, count=1, method="exact")


def rounded(value: float, half_unit: float, level: float = LEVEL) -> Interval:
    """A printed value (> 0): the true one is at most half a unit of its last place away."""
    return Interval(
        mean=value, low=value - half_unit, high=value + half_unit, level=level, count=1, method="rounded"
    )  # fmt: skip


def change(a: Interval, b: Interval, spread: Spread | None = None) -> Change:
    """The relative change from A to B, from the intervals of two single runs; means and upper limits must be > 0.

    The limits of the difference of logarithms are derived from those of the parts: the distances of each side's limits
    from its mean are added in quadrature (Zou and Donner, Statistics in Medicine 27, 2008). The `spread` from
    run to run is one of the parts.
    """
    logs = [(math.log(x.mean), math.log(_positive(x.low, x.mean)), math.log(x.high)) for x in (a, b)]
    (mean_a, low_a, high_a), (mean_b, low_b, high_b) = logs
    difference, prior = mean_b - mean_a, spread.half_width(a.level) if spread else 0.0
    below = math.hypot(mean_b - low_b, high_a - mean_a, prior)
    above = math.hypot(high_b - mean_b, mean_a - low_a, prior)
    normal = quantile((1 + a.level) / 2, 1e6)
    return Change(
        fraction=math.expm1(difference),
        low=math.expm1(difference - below),
        high=math.expm1(difference + above),
        level=a.level,
        over="steps",
        run_std=(below + above) / 2 / normal / math.sqrt(2),
        prior=prior,
        prior_runs=spread.runs if spread else 0,
    )


def change_from_figure(
    figure: float, rounding: float, means: Sequence[float], own: Interval, spread: Spread = PUBLISHED
) -> Change:
    """The change from a published figure of one run to runs with these means; `own` is their interval.

    `rounding` is the largest error of the figure by its rounding. All values are seconds > 0.
    """
    of_repeats = change_of_repeats([figure], means, own.level, rounding / figure)
    return of_repeats or change(rounded(figure, rounding, own.level), own, spread)


def change_of_repeats(
    a: Sequence[float], b: Sequence[float], level: float = LEVEL, rounding: float = 0.0
) -> Change | None:
    """The relative change from A's mean to B's, with repeats; None for fewer than three runs in total.

    Student's two-sample t test of the logarithms, with pooled variance, so that one new run can be compared with
    several runs of a baseline. If all repeats have the same mean (a coarsely rounded log), their variation is not
    known, and that of published repeats replaces it. `rounding` is the relative rounding of A, for a published A.
    """
    if not a or not b or len(a) + len(b) < 3:
        return None
    logs = [[math.log(value) for value in values] for values in (a, b)]
    means = [fmean(values) for values in logs]
    squares = math.fsum((v - m) ** 2 for values, m in zip(logs, means, strict=True) for v in values)
    dof = len(a) + len(b) - 2
    std = math.sqrt(squares / dof)
    prior = PUBLISHED.half_width(level, len(a), len(b)) if std < SAME else 0.0
    half = math.hypot(std * math.sqrt(1 / len(a) + 1 / len(b)) * quantile((1 + level) / 2, dof), prior, rounding)
    return _around(means[1] - means[0], half, level, "repeats", max(std, SCALE), prior)


def change_of_pairs(
    pairs: Sequence[tuple[float, float]], b_first: Sequence[bool], level: float = LEVEL
) -> Change | None:
    """The relative change from A to B over pairs (a, b) of runs that followed each other; None for fewer than two.

    Student's t of the logarithms of b / a. From four pairs on, the effect of the order (`b_first`) is estimated and
    removed: if the machine drifts evenly, the second run of every pair is slower or faster by the same amount.
    """
    logs = [math.log(b / a) for a, b in pairs]
    count = len(logs)
    if count < 2:
        return None
    order = [1.0 if first else -1.0 for first in b_first]
    tilt = fmean(order)
    spread = math.fsum((x - tilt) ** 2 for x in order)
    fitted = count > 3 and spread > 0
    effect = math.fsum((x - tilt) * y for x, y in zip(order, logs, strict=True)) / spread if fitted else 0.0
    difference = fmean(logs) - effect * tilt
    rest = math.fsum((y - difference - effect * x) ** 2 for x, y in zip(order, logs, strict=True))
    dof = count - 2 if fitted else count - 1
    std = math.sqrt(rest / dof)
    error = std * math.sqrt(1 / count + (tilt**2 / spread if fitted else 0))
    prior = PUBLISHED.half_width(level, count, count) if std < SAME else 0.0
    half = math.hypot(error * quantile((1 + level) / 2, dof), prior)
    return _around(difference, half, level, "pairs", max(std, math.sqrt(2) * SCALE), prior)


def _around(
    difference: float, half: float, level: float, over: Literal["repeats", "pairs"], std: float, prior: float
) -> Change:
    """A symmetric interval of a difference of logarithms."""
    return Change(
        fraction=math.expm1(difference),
        low=math.expm1(difference - half),
        high=math.expm1(difference + half),
        level=level,
        over=over,
        run_std=std,
        prior=prior,
    )


def _positive(low: float, mean: float) -> float:
    """A lower limit that has a logarithm: an interval that reaches 0 only says "far below"."""
    return max(low, mean * 1e-3)
