"""Statistics from the standard library, but None where a value is undefined.

`statistics` is imported in each function: it would take a tenth of the start-up of `llmbx list`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def mean(values: Iterable[float | None]) -> float | None:
    """The arithmetic mean; None for no values, if one is None (unknown), or if the sum overflows."""
    from statistics import fmean

    every = list(values)
    numbers = [value for value in every if value is not None]
    return _defined(fmean, numbers) if len(numbers) == len(every) else None


def sample_std(values: Sequence[float]) -> float | None:
    """The sample standard deviation (n - 1); None for fewer than two values, or if one is not finite."""
    from statistics import stdev

    return _defined(stdev, values)


def median(values: Sequence[float]) -> float | None:
    """The middle value, or the mean of the two middle ones; None for no values."""
    from statistics import median

    return _defined(median, values)


def _defined(statistic: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    try:
        return statistic(values)
    except (ValueError, OverflowError, AttributeError):  # `stdev` of infinity or NaN raises the last one
        return None


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """The sample standard deviation divided by the absolute mean; None if either is undefined or the mean is 0."""
    middle, spread = mean(values), sample_std(values)
    return spread / abs(middle) if middle and spread is not None else None


def deviation(values: Sequence[float]) -> float | None:
    """The median absolute deviation, scaled (x 1.4826) to the standard deviation of a normal distribution."""
    middle = median(values)
    spread = None if middle is None else median([abs(value - middle) for value in values])
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
