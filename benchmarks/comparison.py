"""How often the verdicts of `llmbx compare` are wrong, by simulation: python benchmarks/comparison.py [COMPARISONS].

A run has a mean that deviates from the true one by the variation from run to run, and steps with autocorrelated noise
around it. The system of each comparison draws its variation from the prior (`llmbx.measure.run_variation`). Each row is
a design (runs on each side, or alternating pairs on a machine that drifts by 1 % from run to run) and a noise; the true
difference of each column is a multiple of the tolerance of 5 %. A verdict is wrong if it is

- slower or faster although both sides are equal (difference 0): should be at most 5 of 100,
- equivalent although the difference is the tolerance (1.0): should be at most 5 of 100,
- slower although the difference is the tolerance (1.0): should be at most 5 of 100.

The other columns show the power: equivalent at a difference of 0 and 0.5 tolerances, slower at 1.5 and 2.

The second table is about machines that vary more than those of the prior: single runs, where the install has so many
earlier repeats. The runs of each machine vary by 0.3 to 3 %; the true difference is the tolerance.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter

from llmbx_analysis.compare.verdict import decide_verdict
from llmbx_verdict.statistics import intervals, run_variation

TOLERANCE = 0.05
STEPS = 34
DRIFT = 0.01

SINGLE = 5
"""A comparison of single runs takes as long as a hundred others: a fifth of the comparisons is made."""

DESIGNS = {"1 run a side": 1, "3 runs a side": 3, "5 runs a side": 5, "5 pairs, drift": -5}
"""Runs on each side; negative: alternating pairs."""

NOISES = ((0.005, 0.0), (0.02, 0.0), (0.02, 0.5), (0.02, 0.8))
"""Standard deviation of the steps and correlation of neighbors."""

SPREADS = (0.003, 0.0075, 0.015, 0.03)
EARLIER = (0, 2, 3, 5, 10, 20)

DIFFERENCES = (0.0, 0.5, 1.0, 1.5, 2.0)
"""True differences in tolerances."""


def steps(seed: random.Random, mean: float, noise: float, phi: float) -> list[float]:
    """The step times of one run: a stationary autoregression around the mean."""
    value, values = seed.gauss(0, 1), []
    for _ in range(STEPS):
        values.append(mean * (1 + noise * value))
        value = phi * value + math.sqrt(1 - phi * phi) * seed.gauss(0, 1)
    return values


def spread_of(seed: random.Random) -> float:
    """The relative standard deviation of the runs of one system: scaled inverse chi-squared, as in the prior."""
    return run_variation.SCALE * math.sqrt(run_variation.DOF / seed.gammavariate(run_variation.DOF / 2, 2))


def verdict(seed: random.Random, design: int, noise: float, phi: float, difference: float) -> str:
    """The verdict on one simulated comparison."""
    spread, count = spread_of(seed), abs(design)
    true = (1.0, 1 + difference * TOLERANCE)
    order = [(side, pair) for pair in range(count) for side in ((0, 1) if pair % 2 == 0 else (1, 0))]
    runs: list[list[list[float]]] = [[[] for _ in range(count)] for _ in true]
    for place, (side, pair) in enumerate(order):
        drift = (1 + DRIFT) ** place if design < 0 else 1.0
        runs[side][pair] = steps(seed, true[side] * drift * math.exp(spread * seed.gauss(0, 1)), noise, phi)
    change = _change(runs, design)
    return decide_verdict(change, TOLERANCE)[0]


def _change(runs: list[list[list[float]]], design: int) -> intervals.Change:
    means = [[math.fsum(values) / len(values) for values in side] for side in runs]
    if design < 0:
        order = [pair % 2 == 1 for pair in range(-design)]
        found = intervals.change_of_pairs(list(zip(*means, strict=True)), order)
    else:
        found = intervals.change_of_repeats(*means)
    if found is not None:
        return found
    one, two = (intervals.over_steps(side[0]) for side in runs)
    assert one is not None and two is not None
    return intervals.change(one, two, run_variation.PUBLISHED)


def machine_verdict(seed: random.Random, spread: float, repeats: int) -> str:
    """The verdict on two single runs of a machine with this spread, whose install has `repeats` earlier runs."""
    earlier = [math.exp(spread * seed.gauss(0, 1)) for _ in range(repeats)]
    means = [mean * math.exp(spread * seed.gauss(0, 1)) for mean in (1.0, 1 + TOLERANCE)]
    sides = [intervals.exact(mean) for mean in means]
    change = intervals.change(sides[0], sides[1], run_variation.learned([earlier]))
    return decide_verdict(change, TOLERANCE)[0]


def machines(comparisons: int) -> None:
    """Print how many verdicts are wrong at a true difference of the tolerance, by spread and earlier repeats."""
    print("spread  | wrong with 0, 2, 3, 5, 10, 20 earlier repeats")
    for spread in SPREADS:
        cells = []
        for repeats in EARLIER:
            source = random.Random(f"{spread} {repeats}")
            verdicts = Counter(machine_verdict(source, spread, repeats) for _ in range(comparisons))
            cells.append(100 * (verdicts["equivalent"] + verdicts["slower"]) / comparisons)
        print(f"{100 * spread:4.1f} %    " + "  ".join(f"{cell:5.1f}" for cell in cells), flush=True)


def rates(comparisons: int, design: int, noise: float, phi: float, difference: float, seed: int = 1) -> Counter[str]:
    """How many of the comparisons have each verdict."""
    source = random.Random(f"{seed} {design} {noise} {phi} {difference}")
    return Counter(verdict(source, design, noise, phi, difference) for _ in range(comparisons))


def main() -> None:
    """Print one row for each design and noise; all cells are percentages."""
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    machines(asked)
    print("design           noise  phi  | wrong: slower or faster at 0, equivalent at 1.0, slower at 1.0 |"
          " equivalent at 0, 0.5; slower at 1.5, 2.0")  # fmt: skip
    for name, design in DESIGNS.items():
        comparisons = asked // SINGLE if design == 1 else asked
        for noise, phi in NOISES:
            found = {d: rates(comparisons, design, noise, phi, d) for d in DIFFERENCES}
            cells = (
                found[0.0]["slower"] + found[0.0]["faster"], found[1.0]["equivalent"], found[1.0]["slower"],
                found[0.0]["equivalent"], found[0.5]["equivalent"], found[1.5]["slower"], found[2.0]["slower"],
            )  # fmt: skip
            row = "  ".join(f"{100 * cell / comparisons:5.1f}" for cell in cells)
            print(f"{name:15}  {100 * noise:3.1f} %  {phi:.1f}  {row}", flush=True)


if __name__ == "__main__":
    main()
