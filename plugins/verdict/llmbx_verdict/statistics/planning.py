"""How much more has to be measured until an interval no longer contains the tolerance, or a difference shows.

The plans assume that the difference and the variation stay as they are; they are a guide, not a promise.
"""

from __future__ import annotations

import math

from .intervals import Change, Interval
from .student_t import quantile

MOST = 100
"""More runs than this are not suggested: the difference is too close to the tolerance."""

MOST_STEPS = 100_000

POWER = 0.8
"""The share of comparisons in which a difference that counts as detectable is significant."""


def margin(change: Change, tolerance: float) -> float:
    """The distance of the change from the nearer limit of the tolerance, in logarithms."""
    difference, limits = math.log1p(max(change.fraction, -0.999)), [math.log1p(tolerance)]
    if tolerance < 1:
        limits.append(math.log1p(-tolerance))
    return min(abs(difference - limit) for limit in limits)


def runs_needed(change: Change, tolerance: float) -> int | None:
    """The number of runs on each side, or of pairs, that would decide; None if `MOST` would not."""
    room, std, probability = margin(change, tolerance), change.run_std, (1 + change.level) / 2
    if std is None:
        return None
    paired = change.over == "pairs"
    for count in range(2, MOST + 1):
        dof, parts = (count - 1, 1) if paired else (2 * count - 2, 2)
        if quantile(probability, dof) * std * math.sqrt(parts / count) <= room:
            return count
    return None


def detectable(change: Change) -> float:
    """The smallest true difference (a fraction) that would have been significant in `POWER` of comparisons like this.

    By the width of the interval, as for normally distributed means; with few runs it is a little less.
    """
    half = math.log((1 + change.high) / (1 + change.low)) / 2
    normal = 1e6
    return math.expm1(half * (1 + quantile(POWER, normal) / quantile((1 + change.level) / 2, normal)))


def runs_to_detect(change: Change, difference: float) -> int | None:
    """The number of runs on each side, or of pairs, that would show a true difference (a fraction) in `POWER` of cases.

    None if `MOST` would not, or if the variation is unknown.
    """
    std, paired = change.run_std, change.over == "pairs"
    if std is None:
        return None
    for count in range(2, MOST + 1):
        dof, parts = (count - 1, 1) if paired else (2 * count - 2, 2)
        factor = quantile((1 + change.level) / 2, dof) + quantile(POWER, dof)
        if factor * std * math.sqrt(parts / count) <= math.log1p(difference):
            return count
    return None


def steps_needed(a: Interval, b: Interval, change: Change, tolerance: float) -> int | None:
    """The number of measured steps of each run that would decide; None if the steps are not what is missing.

    `a` and `b` are the intervals of two single runs. More steps reduce the part of the interval that the steps
    contribute, not the part of the variation between runs.
    """
    room = margin(change, tolerance)
    half = math.log((1 + change.high) / (1 + change.low)) / 2
    of_steps = half**2 - change.prior**2
    if room <= change.prior or of_steps <= 0:
        return None
    count = math.ceil(max(a.count, b.count) * of_steps / (room**2 - change.prior**2))
    return count if max(a.count, b.count) < count <= MOST_STEPS else None
