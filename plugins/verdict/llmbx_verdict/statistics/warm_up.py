"""How much of a warm-up that ends slowly is left in a window, estimated from the steps before it and in it.

The step times are `level + size x exp(-k / tau)` and noise. For each tau of a grid, least squares give level and size;
the tau with the smallest residuals counts. What is left in the window is the mean of the second term there. Its error
accounts for the correlation of neighboring steps. A running median of three hides single slow steps.
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
    smooth = [median_of(times[max(0, k - 1) : k + 2]) or 0.0 for k in range(len(times))]
    fits = [fit for begin in {1, first} if (fit := _best(smooth[begin:], first - begin)) is not None]
    fits = [fit for fit in fits if _falls(smooth[first:], fit)]
    return max(fits, key=lambda fit: fit.fraction / fit.error if fit.error else 0.0, default=None)


def _falls(window: Sequence[float], fit: Rest) -> bool:
    """Whether the window itself falls as the decay says; it does not after a step from one level to another."""
    half = len(window) // 2
    before, after = mean_of(window[:half]) or 0.0, mean_of(window[half:]) or 0.0
    shape = [math.exp(-k / fit.tau) for k in range(len(window))]
    whole, early, late = (mean_of(part) or 0.0 for part in (shape, shape[:half], shape[half:]))
    return before - after > AS_SAID * fit.fraction * after * (early - late) / whole


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
