"""Student's t distribution without scipy: distribution function, density and quantile.

The distribution function is the regularized incomplete beta function, evaluated as a continued fraction by the modified
Lentz method (NIST Digital Library of Mathematical Functions, 8.17.22; 3.10(iii)). The quantile inverts it by Newton's
method, which cannot overshoot because the function is concave above the median.
"""

from __future__ import annotations

import math

TINY = 1e-300
PRECISION = 1e-14


def cdf(x: float, dof: float) -> float:
    """P(T <= x) for Student's t with `dof` degrees of freedom (> 0, not necessarily an integer)."""
    if x == 0:
        return 0.5
    tail = _tail(abs(x), dof)
    return 1 - tail if x > 0 else tail


def density(x: float, dof: float) -> float:
    """The probability density of Student's t at `x`."""
    constant = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2) - 0.5 * math.log(dof * math.pi)
    return math.exp(constant - (dof + 1) / 2 * math.log1p(x * x / dof))


def quantile(probability: float, dof: float) -> float:
    """The x with P(T <= x) = `probability`. Raises `ValueError` outside of (0, 1) or for `dof` <= 0."""
    if not 0 < probability < 1 or dof <= 0:
        raise ValueError(f"no t quantile for probability {probability} and {dof} degrees of freedom")
    if probability < 0.5:
        return -quantile(1 - probability, dof)
    upper, x = 1 - probability, 0.0
    for _ in range(200):
        step = (_tail(x, dof) - upper) / density(x, dof)
        x += step
        if step <= 1e-12 * x:
            break
    return x


def _tail(x: float, dof: float) -> float:
    """P(T > x) for x >= 0, accurate for small probabilities."""
    return 0.5 * beta(dof / (dof + x * x), x * x / (dof + x * x), dof / 2, 0.5)


def beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b) for 0 <= x <= 1.

    `rest` is 1 - x. The caller computes it, because the subtraction loses digits if x is close to 1.
    """
    if x <= 0 or rest <= 0:
        return float(rest <= 0)
    log_x = math.log(x) if x < 0.5 else math.log1p(-rest)
    log_rest = math.log(rest) if rest < 0.5 else math.log1p(-x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * log_x + b * log_rest
    if x < (a + 1) / (a + b + 2):
        return math.exp(front) * _fraction(x, a, b) / a
    return 1 - math.exp(front) * _fraction(rest, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function; no part of it may be 0."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or TINY)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / (1 + even * d or TINY), 1 + even / c or TINY
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / (1 + odd * d or TINY), 1 + odd / c or TINY
        value *= d * c
        if abs(d * c - 1) < PRECISION:
            break
    return value
