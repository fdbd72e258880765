"""What the times of the measured steps look like beyond their mean: outliers, drift, two levels. Pure and cheap.

Each flag takes two things: that chance would rarely do it, and that it is large enough to matter. The limits of chance
were set by simulation on normal, uniform and correlated series (tests/core/measure/test_series.py holds them to it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from ..model import Point, Step, Value
from . import stats

MOST_POINTS = 400
"""A longer run is drawn as this many stretches at most, each by its mean and its range."""

NOTABLE_OUTLIER = 0.02
"""An outlier is at least this fraction away from the median."""

NOTABLE_DRIFT = 0.01
"""A drift amounts to at least this fraction of the mean from the first measured step to the last."""

NOTABLE_LEVELS = 0.01
"""Two levels are at least this fraction of the mean apart."""

CERTAIN = 0.99
"""How sure a drift must be: its interval at this level leaves none out."""


class Outlier(Value, frozen=True):
    """One step that stands out: its number, its time, and by which factor of the median it differs (1.4: 40 % more)."""

    number: int
    time_s: float
    ratio: float


class Drift(Value, frozen=True):
    """A trend over the window: the fraction by which a step gets slower from its beginning to its end, and its range.

    Positive is slower, as when a GPU throttles.
    """

    fraction: float
    low: float
    high: float


class Levels(Value, frozen=True):
    """Two separate levels of the step time in seconds, and how many steps are at each.

    `since` is the number of the step from which on the other level holds, None when the steps change between them.
    """

    low_s: float
    high_s: float
    low_steps: int
    high_steps: int
    since: int | None = None


class Look(Value, frozen=True):
    """All of it for one window. Two levels explain what would else be outliers or a drift."""

    outliers: tuple[Outlier, ...] = ()
    drift: Drift | None = None
    levels: Levels | None = None


def look(steps: Sequence[Step]) -> Look:
    """What stands out in the times of these measured steps; steps without a time are left out."""
    timed = [step for step in steps if step.time_s is not None]
    levels = two_levels(timed)
    odd = () if levels else outliers(timed)
    named = {outlier.number for outlier in odd}
    usual = [step for step in timed if step.number not in named]
    levels = levels or two_levels(usual)
    return Look(outliers=odd, drift=None if levels else drift(usual), levels=levels)


def outliers(steps: Sequence[Step]) -> tuple[Outlier, ...]:
    """Steps farther from the median than 5 + 20/n scaled median absolute deviations, and than 2 % of the median.

    Of series without an outlier at most two in a hundred have one named. Needs six steps.
    """
    times = _times(steps)
    middle, spread = stats.median(times), stats.deviation(times)
    if len(times) < 6 or not middle or spread is None:
        return ()
    limit = max((5 + 20 / len(times)) * spread, NOTABLE_OUTLIER * middle)
    return tuple(
        Outlier(number=step.number, time_s=time, ratio=time / middle)
        for step, time in zip(steps, times, strict=True)
        if abs(time - middle) > limit
    )


def drift(steps: Sequence[Step]) -> Drift | None:
    """The trend, when it is certain beyond what correlated steps do by themselves, and notable. Needs eight steps."""
    from . import autoregression

    times = _times(steps)
    middle = stats.mean(times)
    slope = autoregression.slope(times) if len(times) >= 8 else None
    edge = (1 - CERTAIN) / 2
    if slope is None or not middle or edge <= slope.below(0) <= 1 - edge:
        return None
    low, fraction, high = (slope.quantile(p) * (len(times) - 1) / middle for p in (edge, 0.5, 1 - edge))
    return Drift(fraction=fraction, low=low, high=high) if abs(fraction) >= NOTABLE_DRIFT else None


def two_levels(steps: Sequence[Step]) -> Levels | None:
    """Two levels, when the steps fall into two groups whose gap is wide against their own spread. Needs eight steps.

    The split is the one with the least spread inside the groups (Otsu); the gap is measured by Ashman's D, the distance
    of the means over the root mean square of the deviations, and must exceed 4 + 40/n. Each group has at least 15 %
    of the steps, and three.
    """
    times = sorted(_times(steps))
    n, least = len(times), max(3, math.ceil(0.15 * len(times)))
    if n < 8:
        return None
    split = _split(times, least)
    low, high = times[:split], times[split:]
    middle, low_s, high_s = (stats.mean(values) or 0.0 for values in (times, low, high))
    spread = math.sqrt(((stats.sample_std(low) or 0) ** 2 + (stats.sample_std(high) or 0) ** 2) / 2)
    gap = high_s - low_s
    if gap <= NOTABLE_LEVELS * middle or gap <= (4 + 40 / n) * spread or times[split] == times[split - 1]:
        return None
    return Levels(
        low_s=low_s, high_s=high_s, low_steps=split, high_steps=n - split, since=_since(steps, times[split])
    )  # fmt: skip


def warnings(steps: Sequence[Step]) -> tuple[str, ...]:
    """The same as `look`, as lines for a result's warnings."""
    seen = look(steps)
    lines = [_outlier_words(seen.outliers)] if seen.outliers else []
    if seen.levels is not None:
        lines.append(_level_words(seen.levels))
    elif seen.drift is not None:
        way = "slower" if seen.drift.fraction > 0 else "faster"
        lines.append(f"steps get {100 * abs(seen.drift.fraction):.1f} % {way} from the window's first to its last")
    return tuple(lines)


def _outlier_words(found: Sequence[Outlier]) -> str:
    named = ", ".join(f"{o.number} ({o.time_s:.4g} s, {o.ratio:.2f} x the median)" for o in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"outlier step{'s' if len(found) > 1 else ''}: {named}{more}"


def _level_words(levels: Levels) -> str:
    both = f"{levels.low_s:.4g} s ({levels.low_steps} steps) and {levels.high_s:.4g} s ({levels.high_steps} steps)"
    how = "changing between them" if levels.since is None else f"the change is at step {levels.since}"
    return f"two levels of step time, {both}, {how}: the mean describes neither"


def _split(ordered: Sequence[float], least: int) -> int:
    """Where to part sorted values so that the sides' means are farthest apart, weighed by their sizes."""
    n, sums = len(ordered), list(accumulate(ordered))
    return max(
        range(least, n - least + 1),
        key=lambda k: k * (n - k) * ((sums[-1] - sums[k - 1]) / (n - k) - sums[k - 1] / k) ** 2,
    )


def _since(steps: Sequence[Step], threshold: float) -> int | None:
    """The number of the first step at the other level, when the levels follow each other in time."""
    sides = [time >= threshold for time in _times(steps)]
    changes = [i for i in range(1, len(sides)) if sides[i] != sides[i - 1]]
    return steps[changes[0]].number if len(changes) == 1 else None


def _times(steps: Sequence[Step]) -> list[float]:
    return [step.time_s for step in steps if step.time_s is not None]


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> tuple[Point, ...]:
    """Points as they are or, where there are more than `most`, stretches of them by mean and range."""
    stride = -(-len(points) // most)
    if stride <= 1:
        return tuple(points)
    return tuple(_stretch(points[k : k + stride]) for k in range(0, len(points), stride))


def _stretch(points: Sequence[Point]) -> Point:
    known = [point.y for point in points if point.y is not None]
    words = f"mean of the steps {points[0].x:,g} to {points[-1].x:,g}, and their range"
    return Point(x=points[len(points) // 2].x, y=stats.mean(known), low=min(known, default=None),
                 high=max(known, default=None), note=words)  # fmt: skip
