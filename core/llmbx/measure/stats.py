"""Basic statistics without numpy. The result is None if it is undefined."""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None for no values, or if the sum overflows."""
    try:
        return math.fsum(values) / len(values) if values else None
    except OverflowError:
        return None


def sample_std(values: Sequence[float]) -> float | None:
    """The sample standard deviation (n - 1); None for fewer than two values, or if it overflows."""
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    try:
        return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))
    except OverflowError:
        return None


def median(values: Sequence[float]) -> float | None:
    """The middle value, or the mean of the two middle ones; None for no values."""
    if not values:
        return None
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """The sample standard deviation divided by the absolute mean; None if either is undefined or the mean is 0."""
    middle, spread = mean(values), sample_std(values)
    return spread / abs(middle) if middle and spread is not None else None


def deviation(values: Sequence[float]) -> float | None:
    """The median absolute deviation, scaled (x 1.4826) to the standard deviation of a normal distribution."""
    middle = median(values)
    if middle is None:
        return None
    spread = median([abs(value - middle) for value in values])
    return None if spread is None else 1.4826 * spread


def summary(values: Sequence[float]) -> dict[str, float | None]:
    """`mean`, `std` (sample), `median`, `min` and `max`: the fields of a result's `step_time_s`."""
    return {
        "mean": mean(values),
        "std": sample_std(values),
        "median": median(values),
        "min": min(values, default=None),
        "max": max(values, default=None),
    }
