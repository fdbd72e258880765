"""How much of a warm-up that ends slowly is left in a window, estimated from the steps before it and in it.

The step times are `level + size x exp(-k / tau)` and noise. For each tau of a grid, least squares give level and size;
the tau with the smallest residuals counts. What is left in the window is the mean of the second term there. Its error
accounts for the correlation of neighboring steps. A running median of three hides single slow steps.
A smaller or less certain rest is no reason against a window, but a part of what its mean is uncertain by.

`benchmarks/warm_up.py` measures how often it is found, and how often it is seen where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from llmbx.api import Value, mean_of, median_of

TAUS = (2.0, 3.0, 4.5, 7.0, 10.0, 14.0, 20.0, 28.0, 40.0)
"""Steps in which an e-th of the warm-up is left."""

LEAST = 12
"""Fewer steps show no decay."""

SURE = 3.5
"""Number of standard errors from which on a rest is not by chance."""

LIKELY = 2.0
"""Number of standard errors from which on a rest is part of what the mean is uncertain by."""

NOTABLE = 0.004
"""Relative size of a rest that matters: less than half of what a stable mean may be uncertain by."""

AS_SAID = 0.25
"""Least part of the fall that a decay says the window has, by its halves."""

LARGEST_TAU_SHARE = 0.6
"""A decay that takes longer than this share of the steps cannot be told from a trend, which has a test of its own."""


class Rest(Value, frozen=True):
    """What is left of a warm-up in a window, relative to the level after it, with its standard error."""

    fraction: float
    error: float
    tau: float

    @property
    def matters(self) -> bool:
        """Whether it is there for certain, and as large as to matter."""
        return self.fraction > NOTABLE and self.fraction > SURE * self.error


def rest_in(times: Sequence[float], first: int) -> Rest | None:
    """The rest in the window that begins at the place `first` of the times and ends with them; None if unknown."""
    smooth = _smooth(times)
    fits = [fit for fit in _fits(smooth, first) if _falls(smooth[first:], fit)]
    return max(fits, key=lambda fit: fit.fraction / fit.error if fit.error else 0.0, default=None)


def doubt_in(times: Sequence[float], first: int) -> float:
    """The largest rest that is likely, relative to the level, and that the window does not contradict; else 0."""
    smooth = _smooth(times)
    likely = [fit for fit in _fits(smooth, first) if fit.fraction > LIKELY * fit.error]
    agreeing = [fit.fraction for fit in likely if not _contradicts(smooth[first:], fit)]
    return max(agreeing, default=0.0)


def _smooth(times: Sequence[float]) -> list[float]:
    return [median_of(times[max(0, k - 1) : k + 2]) or 0.0 for k in range(len(times))]


def _fits(smooth: Sequence[float], first: int) -> list[Rest]:
    """The decay from the second step on, and that of the window alone."""
    return [fit for begin in {1, first} if (fit := _best(smooth[begin:], first - begin)) is not None]


def _falls(window: Sequence[float], fit: Rest) -> bool:
    """Whether the window itself falls as the decay says; it does not after a step from one level to another."""
    said, seen = _fall(window, fit)
    return seen > AS_SAID * said


def _contradicts(window: Sequence[float], fit: Rest) -> bool:
    """Whether the window falls by less than the decay says, by more than its noise explains."""
    said, seen = _fall(window, fit)
    half = len(window) // 2
    halves = (window[:half], window[half:])
    residuals = [time - (mean_of(part) or 0.0) for part in halves for time in part]
    squares = math.fsum(r * r for r in residuals)
    error = math.sqrt(2 / half * squares / (len(residuals) - 2) * _inflation(residuals, squares))
    return said - seen > LIKELY * error


def _fall(window: Sequence[float], fit: Rest) -> tuple[float, float]:
    """By how much the second half of the window is faster than the first: as the decay says, and in fact."""
    half = len(window) // 2
    before, after = mean_of(window[:half]) or 0.0, mean_of(window[half:]) or 0.0
    shape = [math.exp(-k / fit.tau) for k in range(len(window))]
    whole, early, late = (mean_of(part) or 0.0 for part in (shape, shape[:half], shape[half:]))
    return fit.fraction * after * (early - late) / whole, before - after


def _best(times: Sequence[float], first: int) -> Rest | None:
    if len(times) < LEAST:
        return None
    longest = LARGEST_TAU_SHARE * len(times)
    fits = [_fit(times, tau, first) for tau in TAUS if tau <= longest]
    return min(fits, key=lambda fit: fit[0])[1] if fits else None


def _fit(times: Sequence[float], tau: float, first: int) -> tuple[float, Rest]:
    """The sum of the squared residuals for this tau, and the rest."""
    shape = [math.exp(-k / tau) for k in range(len(times))]
    middle, level = mean_of(shape) or 0.0, mean_of(times) or 0.0
    spread = math.fsum((x - middle) ** 2 for x in shape)
    size = math.fsum((x - middle) * (y - level) for x, y in zip(shape, times, strict=True)) / spread
    residuals = [y - level - size * (x - middle) for x, y in zip(shape, times, strict=True)]
    squares = math.fsum(r * r for r in residuals)
    after = level - size * middle
    left = mean_of(shape[first:]) or 0.0
    error = math.sqrt(squares / (len(times) - 3) * _inflation(residuals, squares) / spread)
    return squares, Rest(fraction=size * left / after, error=error * left / after, tau=tau)


def _inflation(residuals: Sequence[float], squares: float) -> float:
    """By how much the correlation of neighbors raises the variance of the size."""
    if squares <= 0:
        return 1.0
    phi = math.fsum(a * b for a, b in pairwise(residuals)) / squares
    phi = min(0.95, max(0.0, phi + 2 / len(residuals)))  # the estimate is too small in short series
    return (1 + phi) / (1 - phi)


def words(rest: Rest) -> str:
    """The rest in words."""
    percent = f"{100 * rest.fraction:.1f} %"
    return f"the warm-up has not ended: the mean is about {percent} above the time that the steps come down to"
