"""Detect outliers, drift and two levels in the times of the measured steps.

Each flag requires an effect that is unlikely by chance and large enough to matter. The thresholds were set by
simulation of normal, uniform and correlated series (checked by tests/core/measure/test_series.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from llmbx.api import Point, Step, Value, listed, mean_of, median_of, summary_of

MAX_POINTS = 400
"""Maximum number of points in a chart; longer runs are drawn as segments, each by its mean and range."""

NOTABLE_OUTLIER = 0.02
"""Minimum relative distance of an outlier from the median."""

NOTABLE_DRIFT = 0.01
"""Minimum drift from the first measured step to the last, relative to the mean."""

NOTABLE_LEVELS = 0.01
"""Minimum distance of two levels, relative to the mean."""

DRIFT_LEVEL = 0.99
"""Confidence level at which the interval of a drift must exclude zero."""

SHORT = 20
SHORT_DRIFT_LEVEL = 0.995
"""The same for fewer than `SHORT` steps, in which a strong correlation (phi 0.9) resembles a trend."""


class Outlier(Value, frozen=True):
    """One outlier step: its number, its time, and its ratio to the median (1.4: 40 % more)."""

    number: int
    time_s: float
    ratio: float


class Drift(Value, frozen=True):
    """A trend over the window: relative increase of the step time from the first step to the last, with its interval.

    Positive means slower, for example when a GPU throttles.
    """

    fraction: float
    low: float
    high: float


class Levels(Value, frozen=True):
    """Two separate levels of the step time in seconds, and the number of steps at each.

    `since` is the number of the first step at the other level, None if the steps alternate between the levels.
    """

    low_s: float
    high_s: float
    low_steps: int
    high_steps: int
    since: int | None = None


class Anomalies(Value, frozen=True):
    """Anomalies of one window. With two levels there are no outliers and no drift, as the levels explain them."""

    outliers: tuple[Outlier, ...] = ()
    drift: Drift | None = None
    levels: Levels | None = None


def detect(steps: Sequence[Step]) -> Anomalies:
    """Find anomalies in the times of these measured steps; steps without a time are ignored."""
    timed = [step for step in steps if step.time_s is not None]
    levels = two_levels(timed)
    odd = () if levels else outliers(timed)
    named = {outlier.number for outlier in odd}
    usual = [step for step in timed if step.number not in named]
    levels = levels or two_levels(usual)
    return Anomalies(outliers=odd, drift=None if levels else drift(usual), levels=levels)


def deviation(values: Sequence[float]) -> float | None:
    """The median absolute deviation, scaled (x 1.4826) to the standard deviation of a normal distribution."""
    middle = median_of(values)
    spread = None if middle is None else median_of([abs(value - middle) for value in values])
    return None if spread is None else 1.4826 * spread


def outliers(steps: Sequence[Step]) -> tuple[Outlier, ...]:
    """Steps farther from the median than 5 + 20/n scaled median absolute deviations, and than 2 % of the median.

    At most two in a hundred series without an outlier have one flagged. Needs six steps.
    """
    times = times_of(steps)
    middle, spread = median_of(times), deviation(times)
    if len(times) < 6 or not middle or spread is None:
        return ()
    limit = max((5 + 20 / len(times)) * spread, NOTABLE_OUTLIER * middle)
    return tuple(
        Outlier(number=step.number, time_s=time, ratio=time / middle)
        for step, time in zip(steps, times, strict=True)
        if abs(time - middle) > limit
    )


def drift(steps: Sequence[Step]) -> Drift | None:
    """The trend, if it is larger than what correlated steps show by chance, and notable. Needs eight steps."""
    from . import autoregression

    times = times_of(steps)
    middle = mean_of(times)
    slope = autoregression.slope(times) if len(times) >= 8 else None
    edge = (1 - (DRIFT_LEVEL if len(times) >= SHORT else SHORT_DRIFT_LEVEL)) / 2
    if slope is None or not middle or edge <= slope.below(0) <= 1 - edge:
        return None
    low, fraction, high = (slope.quantile(p) * (len(times) - 1) / middle for p in (edge, 0.5, 1 - edge))
    return Drift(fraction=fraction, low=low, high=high) if abs(fraction) >= NOTABLE_DRIFT else None


def two_levels(steps: Sequence[Step]) -> Levels | None:
    """Two levels, if the steps form two groups whose gap is wide compared with their spread. Needs eight steps.

    The steps are split where the spread inside the groups is smallest (Otsu); the gap is measured by Ashman's D, the
    distance of the means divided by the root mean square of the standard deviations, and must exceed 4 + 40/n. Each
    group has at least 15 % of the steps, and at least three.
    """
    times = sorted(times_of(steps))
    n, least = len(times), max(3, math.ceil(0.15 * len(times)))
    if n < 8:
        return None
    split = _split(times, least)
    low, high = times[:split], times[split:]
    middle, low_s, high_s = (mean_of(values) or 0.0 for values in (times, low, high))
    spread = math.sqrt(((summary_of(low)["std"] or 0) ** 2 + (summary_of(high)["std"] or 0) ** 2) / 2)
    gap = high_s - low_s
    if gap <= NOTABLE_LEVELS * middle or gap <= (4 + 40 / n) * spread or times[split] == times[split - 1]:
        return None
    return Levels(
        low_s=low_s, high_s=high_s, low_steps=split, high_steps=n - split, since=_since(steps, times[split])
    )  # fmt: skip


def drift_words(drift: Drift) -> str:
    """The drift in words."""
    way = "slower" if drift.fraction > 0 else "faster"
    return f"steps get {100 * abs(drift.fraction):.1f} % {way} from the first to the last of the window"


def outlier_words(found: Sequence[Outlier]) -> str:
    """The outliers in words, at most five by their numbers."""
    named = [f"{o.number} ({o.time_s:.4g} s, {o.ratio:.2f} x the median)" for o in found]
    return f"step{'s' if len(found) > 1 else ''} {listed(named, 5)}"


def level_words(levels: Levels) -> str:
    """The two levels in words."""
    both = f"{levels.low_s:.4g} s ({levels.low_steps} steps) and {levels.high_s:.4g} s ({levels.high_steps} steps)"
    how = "alternating" if levels.since is None else f"changing at step {levels.since}"
    return f"two levels of step time, {both}, {how}: the mean represents neither"


def _split(ordered: Sequence[float], least: int) -> int:
    """Index that splits sorted values so that the size-weighted distance of the means is largest."""
    n, sums = len(ordered), list(accumulate(ordered))
    return max(
        range(least, n - least + 1),
        key=lambda k: k * (n - k) * ((sums[-1] - sums[k - 1]) / (n - k) - sums[k - 1] / k) ** 2,
    )


def _since(steps: Sequence[Step], threshold: float) -> int | None:
    """Number of the first step at the other level, if the level changes only once."""
    sides = [time >= threshold for time in times_of(steps)]
    changes = [i for i in range(1, len(sides)) if sides[i] != sides[i - 1]]
    return steps[changes[0]].number if len(changes) == 1 else None


def times_of(steps: Sequence[Step]) -> list[float]:
    """The times of the steps that have one, in seconds."""
    return [step.time_s for step in steps if step.time_s is not None]


def thinned(points: Sequence[Point], limit: int = MAX_POINTS) -> tuple[Point, ...]:
    """The points, or, if there are more than `limit`, the mean and range of consecutive segments."""
    stride = -(-len(points) // limit)
    if stride <= 1:
        return tuple(points)
    return tuple(_stretch(points[k : k + stride]) for k in range(0, len(points), stride))


def _stretch(points: Sequence[Point]) -> Point:
    values = [point.y for point in points if point.y is not None]
    words = f"mean and range of the steps {points[0].x:,g} to {points[-1].x:,g}"
    return Point(x=points[len(points) // 2].x, y=mean_of(values), low=min(values, default=None),
                 high=max(values, default=None), note=words)  # fmt: skip
