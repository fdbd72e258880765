"""The error rates of a window's stability, by simulation: python benchmarks/stability.py [SERIES].

A stationary series is a first-order autoregression: each step's deviation is phi times that of the step before, plus
normal noise; the standard deviation of the steps is given in percent of the mean. A false alarm is any verdict but
`stable` on such a series, except for `noisy` where it is right: where the mean of such a series truly is uncertain by
more than half of the limit. (The uncertainty is estimated from the steps, within a factor of two in 90 of 100 series.)
The first table has the false alarms, in percent; at most 5 are allowed in each cell. `noisy` where it is right stands
behind a plus sign.

The second table has the power: in how many of 100 series an effect is not `stable`, and in brackets how often it is
named. Noise with phi 0.3 lies under each effect: a drift of 3 % from the first step to the last; 10 % of the steps (at
least one) that take 1.1 to 2 times as long; one step that takes ten times as long; levels 3 % apart that alternate or
change in the middle; half of the window throttled to twice the time.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from typing import NamedTuple

from llmbx.model import Step
from llmbx_verdict.stability import LARGEST_UNCERTAINTY, judge

COUNTS = (10, 20, 30, 40, 100)
CORRELATIONS = (0.0, 0.3, 0.6, 0.9)
SPREADS = (0.001, 0.002, 0.005, 0.01, 0.02)

ALLOWED = 0.05
"""Largest share of false alarms in a cell."""


def stationary(source: random.Random, count: int, phi: float, spread: float) -> list[float]:
    """Step times around 1 s with correlated noise of standard deviation `spread`."""
    value, times = source.gauss(0, 1), []
    for _ in range(count):
        times.append(1 + spread * value)
        value = phi * value + math.sqrt(1 - phi * phi) * source.gauss(0, 1)
    return times


def true_uncertainty(count: int, phi: float, spread: float) -> float:
    """Half of the 95 % interval of the mean for whoever knows phi and the standard deviation."""
    variance = (1 + 2 * sum((1 - k / count) * phi**k for k in range(1, count))) / count
    return 1.96 * spread * math.sqrt(variance)


def verdict(times: list[float]) -> str:
    """What llmbx says about a window with these steps."""
    return str(judge([Step(number=k, time_s=time) for k, time in enumerate(times)]).verdict)


class Cell(NamedTuple):
    """Shares of series: false alarms, and `noisy` where it is right."""

    false: float
    right: float


def alarms(count: int, phi: float, spread: float, repeats: int) -> Cell:
    """The verdicts on stationary series."""
    source = random.Random(f"{count} {phi} {spread}")
    found = [verdict(stationary(source, count, phi, spread)) for _ in range(repeats)]
    wide = true_uncertainty(count, phi, spread) > LARGEST_UNCERTAINTY / 2
    right = found.count("noisy") if wide else 0
    return Cell((repeats - found.count("stable") - right) / repeats, right / repeats)


def drift(source: random.Random, times: list[float]) -> list[float]:
    """3 % from the first step to the last."""
    return [time + 0.03 * k / (len(times) - 1) for k, time in enumerate(times)]


def late(source: random.Random, times: list[float]) -> list[float]:
    """A tenth of the steps, 10 to 100 % late."""
    odd = source.sample(range(len(times)), max(1, len(times) // 10))
    return [time + (source.uniform(0.1, 1) if k in odd else 0) for k, time in enumerate(times)]


def tenfold(source: random.Random, times: list[float]) -> list[float]:
    """One step, ten times as long."""
    odd = source.randrange(len(times))
    return [10 * time if k == odd else time for k, time in enumerate(times)]


def alternating(source: random.Random, times: list[float]) -> list[float]:
    """Every second step, 3 % longer."""
    return [time + 0.03 * (k % 2) for k, time in enumerate(times)]


def shifted(source: random.Random, times: list[float]) -> list[float]:
    """The second half, 3 % longer."""
    return [time + 0.03 * (2 * k >= len(times)) for k, time in enumerate(times)]


def throttled(source: random.Random, times: list[float]) -> list[float]:
    """The second half, twice as long."""
    return [time + (2 * k >= len(times)) for k, time in enumerate(times)]


EFFECTS: dict[str, tuple[str, Callable[[random.Random, list[float]], list[float]]]] = {
    "3 % drift": ("drifting", drift),
    "10 % late": ("outliers", late),
    "one x 10": ("outliers", tenfold),
    "3 % alternating": ("two-level", alternating),
    "3 % shift": ("two-level", shifted),
    "half x 2": ("two-level", throttled),
}
"""By the name of an effect: the verdict that names it, and the function that adds it."""


def power(effect: str, count: int, spread: float, repeats: int) -> tuple[float, float]:
    """The share of series with the effect that are not stable, and of those whose verdict names it."""
    name, change = EFFECTS[effect]
    source = random.Random(f"{effect} {count} {spread}")
    found = [verdict(change(source, stationary(source, count, 0.3, spread))) for _ in range(repeats)]
    return 1 - found.count("stable") / repeats, found.count(name) / repeats


def main() -> None:
    """Print both tables in Markdown."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print("| steps | phi | " + " | ".join(f"{100 * spread:g} %" for spread in SPREADS) + " |")
    print("|---|---|" + "---|" * len(SPREADS))
    worst = 0.0
    for count in COUNTS:
        for phi in CORRELATIONS:
            cells = [alarms(count, phi, spread, repeats) for spread in SPREADS]
            worst = max(worst, *(cell.false for cell in cells))
            texts = [f"{100 * c.false:.1f}" + (f" + {100 * c.right:.0f}" if c.right else "") for c in cells]
            print(f"| {count} | {phi:g} | " + " | ".join(texts) + " |", flush=True)
    print(f"\nLargest share of false alarms: {100 * worst:.1f} %.\n")
    print("| steps | noise | " + " | ".join(EFFECTS) + " |\n|---|---|" + "---|" * len(EFFECTS))
    for count in COUNTS:
        for spread in SPREADS:
            shares = [power(effect, count, spread, repeats) for effect in EFFECTS]
            texts = [f"{100 * seen:.0f} ({100 * named:.0f})" for seen, named in shares]
            print(f"| {count} | {100 * spread:g} % | " + " | ".join(texts) + " |", flush=True)


if __name__ == "__main__":
    main()
