"""How often 95 % intervals of a mean hold it, on simulated step times: python benchmarks/coverage.py [SERIES].

Each row is a number of steps and a correlation of neighbours (phi of a first-order autoregression), each column a
method: Student's t as if steps were independent, Student's t with the effective number of steps from a bias-corrected
estimate of phi, the means of batches of five steps, and what llmbx uses. A good method stays within 93 to 97.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from itertools import pairwise

from llmbx.measure import stats
from llmbx_verdict.statistics import autoregression, student_t

COUNTS = (6, 10, 20, 34, 50, 100)
CORRELATIONS = (0.0, 0.3, 0.5, 0.7, 0.9)


def series(seed: random.Random, count: int, phi: float) -> list[float]:
    """A stationary autoregression with mean 0."""
    value, values = seed.gauss(0, 1), []
    for _ in range(count):
        values.append(value)
        value = phi * value + math.sqrt(1 - phi * phi) * seed.gauss(0, 1)
    return values


def plain(values: list[float]) -> bool:
    """Student's t: does its interval hold 0?"""
    error = (stats.sample_std(values) or 0) / math.sqrt(len(values))
    return abs(stats.mean(values) or 0) <= student_t.quantile(0.975, len(values) - 1) * error


def estimated(values: list[float]) -> bool:
    """Student's t with the variance of the mean that an estimated phi (Kendall's bias correction) implies."""
    n, middle = len(values), stats.mean(values) or 0
    rest = [value - middle for value in values]
    phi = sum(a * b for a, b in pairwise(rest)) / sum(a * a for a in rest)
    phi = max(-0.9, min(0.97, phi + (1 + 3 * phi) / n))
    inflation = 1 + 2 * sum((1 - k / n) * phi**k for k in range(1, n))
    error = math.sqrt(sum(a * a for a in rest) / (n - inflation) * inflation / n)
    return abs(middle) <= student_t.quantile(0.975, max(1, n / inflation - 1)) * error


def batches(values: list[float]) -> bool:
    """Student's t over the means of batches of five steps."""
    used = values[len(values) % 5 :]
    return plain([stats.mean(used[i : i + 5]) or 0 for i in range(0, len(used), 5)])


def mixture(values: list[float]) -> bool:
    """What llmbx uses."""
    found = autoregression.mean(values)
    return found is not None and 0.025 <= found.below(0) <= 0.975


METHODS: dict[str, Callable[[list[float]], bool]] = {
    "t": plain,
    "t, phi estimated": estimated,
    "batches of 5": batches,
    "llmbx": mixture,
}


def main() -> None:
    """Print the table: series of 100 whose interval holds the mean."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print("steps  phi  " + "".join(f"{name:>18}" for name in METHODS))
    for count in COUNTS:
        for phi in CORRELATIONS:
            seed = random.Random(count * 100 + int(phi * 10))
            drawn = [series(seed, count, phi) for _ in range(repeats)]
            cells = [
                "-" if name.startswith("batches") and count < 10 else f"{100 * sum(map(method, drawn)) / repeats:.1f}"
                for name, method in METHODS.items()
            ]
            print(f"{count:5d}  {phi:.1f}  " + "".join(f"{cell:>18}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
