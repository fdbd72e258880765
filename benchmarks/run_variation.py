"""Fit the prior for the variation from run to run to published repeats: python benchmarks/run_variation.py RUNS.csv.

The table has one row for each run log of MLPerf Training (mlcommons/training_results_v5.0 and v5.1) with the columns
version, org, system, bench, gbs, seq, ga, step_median_s, thr_median and status. Successful runs of the same submission
are repeats; a run is represented by its median step time, or its median throughput if the log has no step times.

A group of n repeats has a variance s^2 with n - 1 degrees of freedom. If the true variances of the systems are scaled
inverse chi-squared with `dof` degrees of freedom, s^2 / scale^2 follows an F distribution; its likelihood is maximized.
One run of an unknown system then deviates by `scale` times Student's t with `dof` degrees of freedom. The program
prints both constants beside those of llmbx (llmbx.measure.run_variation), and the differences between pairs of repeats
beside what they predict; every group has the same weight. The likelihood hardly distinguishes 0.9 from 1.2 degrees of
freedom; llmbx uses the value that gives the observed 95 %.
"""

from __future__ import annotations

import csv
import itertools
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from llmbx_verdict.statistics import run_variation
from llmbx_verdict.statistics.student_t import quantile

KEY = ("version", "org", "system", "bench", "gbs", "seq", "ga")
SCALES = [step / 1e5 for step in range(20, 200)]
DOFS = [step / 20 for step in range(10, 81)]

Variance = tuple[float, int]
"""Standard deviation of the logarithms of one group, and its degrees of freedom."""


def groups(rows: Iterable[dict[str, str]]) -> list[list[float]]:
    """The logarithms of the runs of each submission with at least two runs."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        value = row["step_median_s"] or row["thr_median"]
        if row["status"] == "success" and value:
            found[tuple(row[name] for name in KEY)].append(math.log(float(value)))
    return [values for values in found.values() if len(values) > 1]


def fit(spreads: list[Variance]) -> tuple[float, float]:
    """The scale and the degrees of freedom with the largest likelihood, by search over a grid."""
    return max(itertools.product(SCALES, DOFS), key=lambda pair: _log_likelihood(spreads, *pair))


def _log_likelihood(spreads: list[Variance], scale: float, dof: float) -> float:
    total = 0.0
    for spread, own in spreads:
        ratio = (spread / scale) ** 2
        total += math.lgamma((own + dof) / 2) - math.lgamma(own / 2) - math.lgamma(dof / 2)
        total += own / 2 * math.log(own * ratio / dof) - (own + dof) / 2 * math.log1p(own * ratio / dof)
    return total


def differences(found: list[list[float]]) -> list[tuple[float, float]]:
    """The absolute difference of each pair of repeats, with its weight: one for each group."""
    return sorted(
        (abs(a - b), 2 / (len(values) * (len(values) - 1)))
        for values in found
        for a, b in itertools.combinations(values, 2)
    )


def share(pairs: list[tuple[float, float]], probability: float) -> float:
    """The weighted quantile of the differences."""
    wanted, sum_ = probability * sum(weight for _, weight in pairs), 0.0
    for difference, weight in pairs:
        sum_ += weight
        if sum_ >= wanted:
            return difference
    return pairs[-1][0]


def main() -> None:
    """Print the groups, the fit, and the quantiles of the differences."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with Path(sys.argv[1]).open(newline="", encoding="utf-8") as file:
        found = groups(csv.DictReader(file))
    spreads = [(statistics.stdev(values), len(values) - 1) for values in found]
    percent = [100 * spread for spread, _ in spreads]
    print(f"{len(found)} groups of repeats, {sum(map(len, found))} runs")
    print(f"standard deviation of a group: median {statistics.median(percent):.2f} %, "
          f"90th percentile {statistics.quantiles(percent, n=10)[-1]:.2f} %")  # fmt: skip
    scale, dof = fit(spreads)
    ours = (run_variation.SCALE, run_variation.DOF)
    worse = _log_likelihood(spreads, scale, dof) - _log_likelihood(spreads, *ours)
    print(f"largest likelihood: scale {100 * scale:.3f} %, {dof:.2f} degrees of freedom")
    print(f"llmbx: scale {100 * ours[0]:.3f} %, {ours[1]:.2f} degrees of freedom; log-likelihood lower by {worse:.2f}")
    pairs = differences(found)
    print("pairs of repeats that differ by at most: observed, largest likelihood, llmbx")
    for probability in (0.5, 0.8, 0.9, 0.95, 0.975):
        fitted = (math.sqrt(2) * s * quantile((1 + probability) / 2, d) for s, d in ((scale, dof), ours))
        cells = (probability, share(pairs, probability), *fitted)
        print("  ".join(f"{100 * cell:6.2f} %" for cell in cells))


if __name__ == "__main__":
    main()
