"""How often a warm-up that ends slowly is called stable, by simulation: python benchmarks/warm_up.py [SERIES].

A run has 50 or 100 steps with correlated noise and a warm-up of `size x exp(-k / tau)`, and is measured with
`--window auto`. The first table has, of the series whose mean is more than 0.5 % too high, the share that is called
stable: by the steps of the window alone (as until this test), and with the test for the rest of a warm-up. The second
table has the false alarms of that test: runs without a warm-up, and with one that ends in the steps that are dropped.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from statistics import fmean

from llmbx.measure.window import choose
from llmbx.model import Step
from llmbx_verdict.stability import judge, of_window

COUNTS = (50, 100)
TAUS = (10.0, 15.0, 20.0)
SIZES = (0.05, 0.2, 0.5)
NOISES = ((0.0, 0.002), (0.5, 0.005), (0.0, 0.01), (0.5, 0.01))
"""Correlation and standard deviation."""

BIAS = 0.005


def series(source: random.Random, count: int, phi: float, spread: float) -> list[float]:
    """Step times around 1 s without a warm-up, with a first step of ten times the time."""
    value, times = source.gauss(0, 1), []
    for _ in range(count):
        times.append(1 + spread * value)
        value = phi * value + math.sqrt(1 - phi * phi) * source.gauss(0, 1)
    return [10 * times[0], *times[1:]]


def judged(times: list[float]) -> tuple[float, bool, bool]:
    """The bias of the mean, and whether the window is stable by itself, and with the steps before it."""
    steps = [Step(number=k, time_s=time) for k, time in enumerate(times)]
    _, measured = choose(steps, "auto")
    alone, together = judge(measured), of_window("auto", steps, measured)
    return fmean(s.time_s or 0.0 for s in measured) - 1, alone.verdict == "stable", together.verdict == "stable"


def biased(tau: float, size: float, repeats: int) -> Iterator[tuple[bool, bool]]:
    """Of the series with a bias that matters: whether they are called stable, before and now."""
    for count in COUNTS:
        for phi, spread in NOISES:
            source = random.Random(f"{tau} {size} {count} {phi} {spread}")
            for _ in range(repeats):
                plain = series(source, count, phi, spread)
                bias, before, now = judged([time + size * math.exp(-k / tau) for k, time in enumerate(plain)])
                if bias > BIAS:
                    yield before, now


def alarms(size: float, phi: float, spread: float, repeats: int) -> float:
    """The share of healthy series that only the steps before the window make unstable."""
    source, count = random.Random(f"{size} {phi} {spread}"), 0
    for k in range(repeats):
        plain = series(source, COUNTS[k % 2], phi, spread)
        _, before, now = judged([time + size * math.exp(-k / 2) for k, time in enumerate(plain)])
        count += before and not now
    return count / repeats


def main() -> None:
    """Print both tables in Markdown."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| tau | size | biased series | called stable before | now |\n|---|---|---|---|---|")
    for tau in TAUS:
        for size in SIZES:
            found = [*biased(tau, size, repeats)]
            if not found:
                continue
            before, now = (100 * fmean(pair[k] for pair in found) for k in (0, 1))
            print(f"| {tau:g} | {100 * size:g} % | {len(found)} | {before:.0f} % | {now:.0f} % |", flush=True)
    print("\n| phi | noise | no warm-up | tau 2, 50 % |\n|---|---|---|---|")
    for phi, spread in (*NOISES, (0.9, 0.005)):
        cells = [f"{100 * alarms(size, phi, spread, 4 * repeats):.1f} %" for size in (0.0, 0.5)]
        print(f"| {phi:g} | {100 * spread:g} % | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
