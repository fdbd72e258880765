"""How far the mean of a window may be from the time that its steps come down to, if a warm-up may reach into it.

The step times are `level + size x exp(-k / tau)` and a first-order autoregression (`autoregression`), with a size of
zero or more. Tau is one of a grid, from a warm-up that is over at once to one that a window cannot show. Each pair of
tau and phi has a weight, by how well it explains the steps before the window and in it, and a distribution of the rest
in the window; a short tau is likelier than a long one before anything is seen. The steps before the window say most: a
warm-up that is not seen in them cannot be large in it.

As for a mean without a warm-up, the distance is that for the median phi; the doubt about tau is in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

from llmbx.api import Value, mean_of, median_of

from . import autoregression

TAUS = tuple(2.0 * 1.25**k for k in range(15))
"""Steps in which an e-th of the warm-up is left: 2 to 45."""

LONGEST_SHARE = 0.6
"""A decay that takes longer than this share of the steps cannot be told from a trend, which has a test of its own."""

LEAST = 12
"""Fewer steps show no decay."""

ODD = 5.0
"""Scaled median deviations from the neighbors' median: a single step that is slower is not part of a warm-up."""

MISFIT = 10.0
"""How many times the variance of the window its steps and those before it may have around a decay; above, the time
before the window has another shape, such as a step from one level to another, and says nothing about the window."""

COVERED = 0.95
NEGLIGIBLE = 1e-6
NORMAL = NormalDist()


class _Rest(Value, frozen=True):
    """What is left of the warm-up in the mean of the window, for one tau and phi; the weight is a logarithm."""

    phi: float
    weight: float
    center: float
    scale: float
    noise: float
    """Variance of the steps around the decay."""


def distance(times: Sequence[float], first: int, error: float) -> float | None:
    """Relative to the mean: how far the mean of the times from `first` on is from their level, in 95 % of cases.

    `error` is the standard error of the mean without a warm-up, relative to it.

    None for few steps, or if the steps before the window come down by another shape.
    """
    usual = _without_odd(times[1:])
    mean = mean_of(times[first:])
    if len(usual) < LEAST or not mean or max(usual) == min(usual):
        return None
    rests = [*_rests(usual, first - 1)]
    heaviest = max(rests, key=lambda rest: rest.weight)
    window = usual[first - 1 :]
    if heaviest.noise > MISFIT * _variance(window):
        return None
    likely = [rest for rest in rests if rest.weight > heaviest.weight + math.log(NEGLIGIBLE)]
    weights = [math.exp(rest.weight - heaviest.weight) for rest in likely]
    return _median_over_phi(likely, weights, error * mean) / mean


def _without_odd(times: Sequence[float]) -> list[float]:
    """The times, with the median of three in place of a step that is far from it."""
    smooth = [median_of(times[max(0, k - 1) : k + 2]) or 0.0 for k in range(len(times))]
    smooth[0], smooth[-1] = times[0], times[-1]
    far = ODD * 1.4826 * (median_of([abs(a - b) for a, b in zip(times, smooth, strict=True)]) or 0.0)
    return [a if abs(a - b) <= far else b for a, b in zip(times, smooth, strict=True)]


def _variance(window: Sequence[float]) -> float:
    middle = mean_of(window) or 0.0
    return math.fsum((time - middle) ** 2 for time in window) / (len(window) - 1)


def _rests(times: Sequence[float], first: int) -> Iterator[_Rest]:
    """The rest in the times from `first` on, for each pair of tau and phi."""
    middle = mean_of(times) or 0.0
    y, ones = [time - middle for time in times], [1.0] * len(times)
    own = [autoregression.form(u, v) for u, v in ((y, y), (y, ones), (ones, ones))]
    for tau in TAUS:
        if tau > LONGEST_SHARE * len(times):
            return
        shape = [math.exp(-k / tau) for k in range(len(times))]
        left = mean_of(shape[first:]) or 0.0
        forms = [*own, *(autoregression.form(u, shape) for u in (y, ones, shape))]
        for phi in autoregression.grid():
            yield _rest([autoregression.at(form, phi) for form in forms], phi, tau, left, len(times))


def _rest(forms: Sequence[float], phi: float, tau: float, left: float, count: int) -> _Rest:
    """Least squares for level and size, with a size of zero or more."""
    yy, y1, ones, ys, s1, ss = forms
    whole = ones * ss - s1 * s1
    level, size = (ss * y1 - s1 * ys) / whole, (ones * ys - s1 * y1) / whole
    squares = max(yy - level * y1 - size * ys, 1e-30)
    noise, dof = squares / (count - 2), count - 2
    scale = math.sqrt(noise * ones / whole)
    ratio = size / scale
    positive = max(NORMAL.cdf(ratio), 1e-12)
    hazard = NORMAL.pdf(ratio) / positive
    more, spread = scale * hazard, scale * scale * max(1 - hazard * (hazard + ratio), 1e-4)
    weight = 0.5 * math.log((1 - phi * phi) / whole) - dof / 2 * math.log(squares) + 0.6 * math.log(1 - phi)
    return _Rest(
        phi=phi, weight=weight + math.log(positive / tau), center=left * (size + more),
        scale=left * math.sqrt(spread), noise=noise / (1 - phi * phi),
    )  # fmt: skip


def _median_over_phi(rests: Sequence[_Rest], weights: Sequence[float], error: float) -> float:
    """The distance for each phi, and the median of these by weight."""
    by_phi: dict[float, list[tuple[_Rest, float]]] = {}
    for rest, weight in zip(rests, weights, strict=True):
        by_phi.setdefault(rest.phi, []).append((rest, weight))
    halves = sorted((_half(group, error), math.fsum(weight for _, weight in group)) for group in by_phi.values())
    total, sought = 0.0, math.fsum(weights) / 2
    for half, weight in halves:
        total += weight
        if total >= sought:
            return half
    return halves[-1][0]


def _half(group: Sequence[tuple[_Rest, float]], error: float) -> float:
    """The distance in which the sum of rest and noise is with `COVERED`, by halving."""
    total = math.fsum(weight for _, weight in group)
    parts = [(rest.center, max(math.hypot(error, rest.scale), 1e-12), weight) for rest, weight in group]
    low, high = 0.0, max(abs(center) + 3 * scale for center, scale, _ in parts)
    for _ in range(20):
        half = (low + high) / 2
        inside = math.fsum(
            weight * (NORMAL.cdf((half - center) / scale) - NORMAL.cdf((-half - center) / scale))
            for center, scale, weight in parts
        )
        low, high = (half, high) if inside < COVERED * total else (low, half)
    return high
