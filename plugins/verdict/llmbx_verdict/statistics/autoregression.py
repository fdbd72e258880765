"""Bayesian inference of the mean and trend of a short, correlated series with a first-order autoregressive model.

The series is `mean + slope x time + u` with `u[t] = phi u[t-1] + noise`, started in its stationary state. For a given
phi, generalized least squares yields a Student t distribution of mean and slope; the likelihood of the series weights
the values of phi, and the posterior is the mixture. Phi does not have to be estimated first, which makes the usual
methods fail for few steps. The interval contains the true mean in 95 of 100 series of ten steps with phi 0.5, compared
with 75 for Student's t and 87 for an interval with an estimated phi; for fifty steps, batch means of five contain it in
90 of 100 (benchmarks/coverage.py).

The prior of phi is (1 - phi)^0.6 over Fisher's z = atanh(phi), chosen by simulated coverage for ten to a hundred steps
and phi from 0 to 0.9. The integral over z is a trapezoidal sum, first over the whole grid and then over the part with
non-negligible weight. The quadratic forms use the precision matrix of the autoregression: 1 + phi^2 on the inner
diagonal, 1 at its ends, -phi next to it (Hamilton, Time Series Analysis, 5.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from llmbx.api import Value

from .student_t import cdf, density, quantile

GRID_LIMIT = 2.6
"""Range of the grid of z = atanh(phi): from -GRID_LIMIT to GRID_LIMIT, so that phi reaches 0.989."""

POINTS = 25
NEGLIGIBLE = 1e-6


class Component(Value, frozen=True):
    """One value of phi with its weight, and the t distribution (center, scale) of the coefficient for this phi."""

    phi: float
    weight: float
    center: float
    scale: float


class Mixture(Value, frozen=True):
    """Distribution of a coefficient: t distributions with `dof` degrees of freedom and weights that sum to 1."""

    components: tuple[Component, ...]
    dof: int

    def below(self, x: float) -> float:
        """The probability that the coefficient is below `x`."""
        return math.fsum(c.weight * cdf((x - c.center) / c.scale, self.dof) for c in self.components)

    def quantile(self, probability: float) -> float:
        """The quantile for a probability in (0, 1), by Newton's method between the two nearest values tried."""
        middle = math.fsum(c.weight * c.center for c in self.components)
        scale = math.fsum(c.weight * c.scale for c in self.components)
        x, low, high = middle + scale * quantile(probability, self.dof), -math.inf, math.inf
        longest = scale
        for _ in range(100):
            gap = self.below(x) - probability
            if abs(gap) <= 1e-9:
                break
            low, high = (x, high) if gap < 0 else (low, x)
            longest *= 2
            density_there = self._density(x)
            steep = density_there * longest > abs(gap)
            x -= gap / density_there if steep else math.copysign(longest, gap)
            if not low < x < high:
                x = (low + high) / 2
        return x

    def _density(self, x: float) -> float:
        return math.fsum(c.weight / c.scale * density((x - c.center) / c.scale, self.dof) for c in self.components)

    @property
    def correlation(self) -> float:
        """The mean of phi."""
        return math.fsum(c.weight * c.phi for c in self.components)

    @property
    def typical_scale(self) -> float:
        """The median of the scale over the values of phi: the standard error, without the doubt about phi."""
        total = 0.0
        for component in sorted(self.components, key=lambda c: c.scale):
            total += component.weight
            if total >= 0.5:
                return component.scale
        return self.components[-1].scale


class _Forms(Value, frozen=True):
    """u'Pv as polynomials in phi, for the pairs of series `y`, time `t` (centered) and one."""

    count: int
    yy: tuple[float, float, float]
    y1: tuple[float, float, float]
    yt: tuple[float, float, float]
    tt: tuple[float, float, float]


def mean(values: Sequence[float]) -> Mixture | None:
    """The distribution of the mean of at least four values; None for fewer, or if all are equal."""
    return _mixture(values, trend=False)


def slope(values: Sequence[float]) -> Mixture | None:
    """The distribution of the slope (per step) of at least five values; None for fewer, or if all are equal."""
    return _mixture(values, trend=True)


def _mixture(values: Sequence[float], trend: bool) -> Mixture | None:
    n, k = len(values), 2 if trend else 1
    if n < 3 + k or max(values) == min(values):
        return None
    level, unit = math.fsum(values) / n, max(values) - min(values)
    forms = _forms([(value - level) / unit for value in values])
    coarse = _components(forms, -GRID_LIMIT, GRID_LIMIT, trend)
    heaviest = max(c.weight for c in coarse)
    grid_points = [math.atanh(c.phi) for c in coarse if c.weight > heaviest + math.log(NEGLIGIBLE)]
    step = 2 * GRID_LIMIT / (POINTS - 1)
    fine = _components(forms, max(grid_points[0] - step, -GRID_LIMIT), min(grid_points[-1] + step, GRID_LIMIT), trend)
    return Mixture(components=_normalized(fine, 0.0 if trend else level, unit), dof=n - k)


def _components(forms: _Forms, low: float, high: float, trend: bool) -> list[Component]:
    """One component for each grid point of z."""
    return [_component(forms, phi, trend) for phi in grid(low, high)]


def grid(low: float = -GRID_LIMIT, high: float = GRID_LIMIT) -> list[float]:
    """The values of phi at points of z that are evenly spaced."""
    return [math.tanh(low + (high - low) * i / (POINTS - 1)) for i in range(POINTS)]


def _normalized(components: list[Component], level: float, unit: float) -> tuple[Component, ...]:
    """The components with normalized weights (so far logarithms), in the units of the series."""
    heaviest = max(c.weight for c in components)
    weights = [math.exp(c.weight - heaviest) for c in components]
    weights[0], weights[-1] = weights[0] / 2, weights[-1] / 2  # trapezoidal rule
    total = math.fsum(weights)
    return tuple(
        Component(phi=c.phi, weight=w / total, center=level + unit * c.center, scale=unit * c.scale)
        for c, w in zip(components, weights, strict=True)
        if w > NEGLIGIBLE * total
    )


def _component(forms: _Forms, phi: float, trend: bool) -> Component:
    """Mean (or slope) for one phi; the weight is a logarithm."""
    n = forms.count
    ones = (1 - phi) * (n - (n - 2) * phi)
    times = at(forms.tt, phi)
    on_ones, on_times = at(forms.y1, phi), at(forms.yt, phi)
    rest = at(forms.yy, phi) - on_ones**2 / ones - (on_times**2 / times if trend else 0.0)
    rest, dof = max(rest, 1e-30), n - (2 if trend else 1)
    weight = 0.5 * math.log((1 - phi * phi) / ones) - dof / 2 * math.log(rest) + 0.6 * math.log(1 - phi)
    if not trend:
        return Component(phi=phi, weight=weight, center=on_ones / ones, scale=math.sqrt(rest / dof / ones))
    weight -= 0.5 * math.log(times)
    return Component(phi=phi, weight=weight, center=on_times / times, scale=math.sqrt(rest / dof / times))


def _forms(y: list[float]) -> _Forms:
    n = len(y)
    ones, times = [1.0] * n, [i - (n - 1) / 2 for i in range(n)]
    return _Forms(count=n, yy=form(y, y), y1=form(y, ones), yt=form(y, times), tt=form(times, times))


def form(u: Sequence[float], v: Sequence[float]) -> tuple[float, float, float]:
    """Coefficients (1, phi, phi^2) of u'Pv, where P is the precision matrix of the autoregression."""
    products = [a * b for a, b in zip(u, v, strict=True)]
    beside = math.fsum(a * d + b * c for (a, b), (c, d) in zip(pairwise(u), pairwise(v), strict=True))
    return math.fsum(products), -beside, math.fsum(products[1:-1])


def at(polynomial: tuple[float, float, float], phi: float) -> float:
    """The value of such a form for one phi."""
    return polynomial[0] + phi * (polynomial[1] + phi * polynomial[2])
