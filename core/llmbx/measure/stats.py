"""Statistics from the standard library, but None where a value is undefined.

`statistics` is imported in each function: it would take a tenth of the start-up of `llmbx list`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def mean(values: Iterable[float | None]) -> float | None:
    """The arithmetic mean; None for no values, if one is None (unknown), or if the sum overflows."""
    from statistics import fmean

    all_values = list(values)
    numbers = [value for value in all_values if value is not None]
    return _defined(fmean, numbers) if len(numbers) == len(all_values) else None


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


def summary(values: Sequence[float]) -> dict[str, float | None]:
    """`mean`, `std` (sample), `median`, `min` and `max`: the fields of a result's `step_time_s`."""
    return {
        "mean": mean(values),
        "std": sample_std(values),
        "median": median(values),
        "min": min(values, default=None),
        "max": max(values, default=None),
    }
