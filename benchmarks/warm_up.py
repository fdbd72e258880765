"""How often a warm-up that ends slowly is called stable, by simulation: python benchmarks/warm_up.py [SERIES].

A run has 50 or 100 steps with correlated noise and a warm-up of `size x exp(-k / tau)`, and is measured with
`--window auto`. The first table has the share that is called stable, by the steps of the window alone and with the
test for the rest of a warm-up. Of these the time after the warm-up is not within what the mean is said to be uncertain
by in the shares that follow, which should be 5 % and for noise with phi 0.5 is up to 10 %: by the window alone, and
with the rest that is likely. Then the share with a mean that is more than 0.5 % too high, and those of them that are
called stable and said to be better known than that.

The second table has the false alarms: runs without a warm-up, and with one that ends in the steps that are dropped.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Iterator
from statistics import fmean
from typing import NamedTuple

from llmbx.measure.window import choose
from llmbx.model import Step
from llmbx_verdict.stability import judge, of_window

COUNTS = (50, 100)
TAUS = (10.0, 15.0, 20.0)
SIZES = (0.02, 0.05, 0.2, 0.5)
NOISES = ((0.0, 0.002), (0.5, 0.005), (0.0, 0.01), (0.5, 0.01))
"""Correlation and standard deviation."""

BIAS = 0.005

CLAIM = re.compile(r"uncertain by ±([\d.]+) %")


def series(source: random.Random, count: int, phi: float, spread: float) -> list[float]:
    """Step times around 1 s without a warm-up, with a first step of ten times the time."""
    value, times = source.gauss(0, 1), []
    for _ in range(count):
        times.append(1 + spread * value)
        value = phi * value + math.sqrt(1 - phi * phi) * source.gauss(0, 1)
    return [10 * times[0], *times[1:]]


class Judged(NamedTuple):
    """One series: how much too high the mean is, and by the window alone and with the steps before it whether it is
    called stable, and by how much the mean is said to be uncertain."""

    bias: float
    alone: bool
    claim_alone: float
    now: bool
    claim: float


def judged(times: list[float]) -> Judged:
    """What is said about a series."""
    steps = [Step(number=k, time_s=time) for k, time in enumerate(times)]
    _, measured = choose(steps, "auto")
    alone, together = judge(measured), of_window("auto", steps, measured)
    bias = fmean(s.time_s or 0.0 for s in measured) - 1
    claims = [float(said[1]) / 100 if (said := CLAIM.search(each.reason or "")) else 1.0 for each in (alone, together)]
    return Judged(bias, alone.verdict == "stable", claims[0], together.verdict == "stable", claims[1])


def warmed_up(tau: float, size: float, repeats: int) -> Iterator[Judged]:
    """What is said about series with this warm-up."""
    for count in COUNTS:
        for phi, spread in NOISES:
            source = random.Random(f"{tau} {size} {count} {phi} {spread}")
            for _ in range(repeats):
                plain = series(source, count, phi, spread)
                yield judged([time + size * math.exp(-k / tau) for k, time in enumerate(plain)])


def alarms(size: float, phi: float, spread: float, repeats: int) -> float:
    """The share of healthy series that only the steps before the window make unstable."""
    source, count = random.Random(f"{size} {phi} {spread}"), 0
    for k in range(repeats):
        plain = series(source, COUNTS[k % 2], phi, spread)
        said = judged([time + size * math.exp(-k / 2) for k, time in enumerate(plain)])
        count += said.alone and not said.now
    return count / repeats


def share(part: int, whole: int) -> str:
    """A share in percent."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def main() -> None:
    """Print both tables in Markdown."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| tau | size | stable alone | now | claim wrong alone | now | biased | and stable alone | now |")
    print("|---|---|---|---|---|---|---|---|---|")
    for tau in TAUS:
        for size in SIZES:
            said = [*warmed_up(tau, size, repeats)]
            alone, now = [each for each in said if each.alone], [each for each in said if each.now]
            biased = [each for each in said if each.bias > BIAS]
            cells = [
                share(len(alone), len(said)),
                share(len(now), len(said)),
                share(sum(abs(each.bias) > each.claim_alone for each in alone), len(alone)),
                share(sum(abs(each.bias) > each.claim for each in now), len(now)),
                share(len(biased), len(said)),
                share(sum(each.alone and each.bias > each.claim_alone for each in biased), len(biased)),
                share(sum(each.now and each.bias > each.claim for each in biased), len(biased)),
            ]
            print(f"| {tau:g} | {100 * size:g} % | " + " | ".join(cells) + " |", flush=True)
    print("\n| phi | noise | no warm-up | tau 2, 50 % |\n|---|---|---|---|")
    for phi, spread in (*NOISES, (0.9, 0.005)):
        cells = [f"{100 * alarms(size, phi, spread, 4 * repeats):.1f} %" for size in (0.0, 0.5)]
        print(f"| {phi:g} | {100 * spread:g} % | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
