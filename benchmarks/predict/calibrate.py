"""Calibrate the prediction on the shipped table: the scales of the kernel, and the widths of the intervals.

Usage: python benchmarks/predict/calibrate.py [ROUNDS] [FOLDER] [--fresh]

The search is deterministic: coordinate steps over the scales that lower the log loss of figures that are predicted
without those of their own group (model and GPU type; release; model), beginning at the values of the present file or,
with `--fresh`, at `SCALES`. ROUNDS 0 only recomputes the intervals.
FOLDER has vTrain's figures (see errors.py), by which the intervals of layouts that nobody chose are calibrated; without
it they stay as they are.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import vtrain
from folds import all_errors, factor, groups, of_stacks, widths
from sources import BRIDGE

from llmbx_prediction.atlas import table
from llmbx_prediction.cost.roofline import NAMES
from llmbx_prediction.regression.features import features
from llmbx_prediction.regression.kernel import COMPONENTS, NOISE, Pairs
from llmbx_prediction.regression.posterior import Posterior
from llmbx_prediction.regression.shipped import KINDS, OWN_LAYOUT, Calibration, calibration, kind, usable

TARGET = Path(__file__).parents[2] / "plugins" / "prediction" / "llmbx_prediction" / "data" / "calibration.toml"
_INVERSE = (1.5, 0.5, 1.8, 2.5, 1.2, 0.8, 0.6, 0.3, 1.0, 1.2, 0.5, 0.2, 0.4, 0.3, 0.6, 0.7, 0.7, 0.8)
COEFFICIENTS = dict(zip(NAMES, _INVERSE, strict=True))
"""Seconds of each term over those at rated speed: the inverse of usual efficiencies, rounded."""
SCALES = {
    "all": 0.05, "terms": 0.3, "terms by GPU": 0.06, "terms by family": 0.1, "terms by dtype": 0.05,
    "terms by engine": 0.6, "terms by stack": 0.3, "model": 0.03, "dtype": 0.02, "dtype by generation": 0.02,
    "dense models' dtype": 0.04, "experts' terms by stack": 0.3, "experts' dtype over time": 0.05,
    "experts' dtype by GPU": 0.05,
    "GPU by family": 0.06, "engine": 0.05, "stack": 0.1, "task": 0.03, "stack over time": 0.04, "model over time": 0.02,
    "family over time": 0.06, "layout": 0.03, "shape by generation": 0.09, "shape and layout": 0.05, "cell": 0.01,
    "cell over time": 0.01, NOISE: 0.03,
}  # fmt: skip
"""Where the search begins."""
START, PRIOR_WIDTH, PRIOR_WEIGHT = 0.05, 0.8, 1 / 300
WEIGHTS = {"model and GPU": 1.0, "release": 0.3, "model": 0.25}
"""Importance of the folds in the loss."""
ELSEWHERE = 0.2
"""Importance in the loss of a figure that is not of the newest source."""
LARGEST, SMALLEST, LEAST_NOISE = math.log(1.6), -7.0, math.log(0.03)
"""Limits of the search, in logarithms. With less noise figures of one table would count as independent evidence."""


def loss(posterior: Posterior, folds: dict[str, list[object]], weights: np.ndarray) -> float:
    """Mean log loss of Student's t with four degrees of freedom, and the prior of the scales."""
    total = 0.0
    for name, importance in WEIGHTS.items():
        errors, deviations = posterior.without(folds[name])
        parts = np.log(deviations) + 3.0 * np.log1p((errors / deviations) ** 2 / 5)
        total += importance * float((weights * parts).sum() / weights.sum())
    prior = sum(0.5 * ((math.log(scale) - math.log(START)) / PRIOR_WIDTH) ** 2 for scale in posterior.scales.values())
    return total + PRIOR_WEIGHT * prior


def search(used: list, folds: dict, scales: dict[str, float], rounds: int) -> dict[str, float]:
    """Lower the loss by steps of one scale at a time."""
    cases, seconds = [case for _, case, _ in used], [time for *_, time in used]
    weights = np.array([1.0 if row.source == BRIDGE else ELSEWHERE for row, *_ in used])
    random, steps = np.random.default_rng(0), dict.fromkeys(scales, 0.8)
    known = features(cases, COEFFICIENTS)
    pairs = Pairs(known, known)
    matrices = {name: component(pairs) for name, component in COMPONENTS.items()}

    def value(found: dict[str, float]) -> float:
        base = np.zeros((len(cases), len(cases)))
        for name, matrix in matrices.items():
            base += found[name] ** 2 * matrix
        return loss(Posterior(cases, seconds, COEFFICIENTS, found, known, base), folds, weights)

    best = value(scales)
    for number in range(rounds):
        for name in random.permutation(sorted(scales)):
            for sign in (1, -1):
                least = LEAST_NOISE if name == NOISE else SMALLEST
                moved = min(max(math.log(scales[name]) + sign * steps[name], least), LARGEST)
                tried = {**scales, str(name): math.exp(moved)}
                if (found := value(tried)) < best - 1e-5:
                    best, scales = found, tried
                    steps[name] *= 1.3
                    break
            else:
                steps[name] *= 0.5
        print(f"round {number + 1}: loss {best:.4f}", flush=True)
    return scales


def intervals(used: list, scales: dict[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """The factors of the intervals by what is known, and what multiplies them by stack, printed."""
    errors = all_errors(used, COEFFICIENTS, scales)
    factors = widths(used, errors)
    stacks = of_stacks(used, errors, factors)
    for name, value in factors.items():
        print(f"{name:32} {value:.2f} standard deviations", flush=True)
    for name, value in stacks.items():
        print(f"{name:32} {value:.2f} times as many", flush=True)
    return tuple({name: round(value, 3) for name, value in table.items()} for table in (factors, stacks))


def models(used: list) -> dict[str, int]:
    """How many models of known shape with figures each kind has."""
    names = {(kind(case), case.model.name) for _, case, _ in used if case.model.has_shape}
    return {each: sum(name == each for name, _ in names) for each in KINDS}


def own_layouts(used: list, scales: dict[str, float], folder: Path) -> float:
    """The width of the intervals of layouts that nobody chose: of vTrain's sweeps, each of its models left out."""
    sizes = [size for data in vtrain.tables(folder)
             for _, size in vtrain.unseen_models(used, data, COEFFICIENTS, scales)]  # fmt: skip
    value = round(factor(sizes), 3)
    print(f"{OWN_LAYOUT:32} {value:.2f} standard deviations", flush=True)
    return value


def write(calibration: Calibration) -> None:
    """Write the calibration as TOML."""
    lines = ["# Written by benchmarks/predict/calibrate.py from the table of published figures.",
             "# See docs/prediction.md."]  # fmt: skip
    tables = {"coefficients": 4, "scales": 4, "quantiles": 4, "stacks": 4, "models": 4, "outliers": 9}
    for name, digits in tables.items():
        values = getattr(calibration, name)
        lines += ["", f"[{name}]", *(f'"{key}" = {value:.{digits}g}' for key, value in values.items())]
    TARGET.write_text("\n".join(lines) + "\n")


def main(rounds: int, folder: Path | None, fresh: bool) -> None:
    """Calibrate and write the file."""
    used = usable(table.shipped())
    folds = {name: groups(used, name) for name in WEIGHTS}
    names = (*COMPONENTS, NOISE)
    scales = {name: SCALES[name] for name in names}
    if not fresh and TARGET.exists():
        scales |= {name: scale for name, scale in calibration().scales.items() if name in scales}
    scales = {name: float(f"{value:.4g}") for name, value in search(used, folds, scales, rounds).items()}
    whole = Posterior([case for _, case, _ in used], [time for *_, time in used], COEFFICIENTS, scales)
    own = own_layouts(used, scales, folder) if folder else calibration().quantiles[OWN_LAYOUT]
    quantiles, stacks = intervals(used, scales)
    write(Calibration(coefficients=COEFFICIENTS, scales=scales, quantiles={**quantiles, OWN_LAYOUT: own},
                      stacks=stacks, models=models(used), outliers=whole.outliers()))  # fmt: skip


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--fresh"]
    main(int(words[0]) if words else 25, Path(words[1]) if len(words) > 1 else None, "--fresh" in sys.argv)
