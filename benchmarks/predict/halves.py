"""Fit the scales of models with experts on one half of the models, and measure the other half.

Usage: python benchmarks/predict/halves.py [ROUNDS]

Every model is left out as a whole. The search begins at the neutral values of `START`, so nothing of the measured half
is in what predicts it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import numpy as np
from by_group import half_of
from folds import Used, groups

from llmbx_prediction.atlas import table
from llmbx_prediction.regression.posterior import Posterior
from llmbx_prediction.regression.shipped import calibration, usable

START = {"experts' terms by stack": 0.3, "experts' dtype over time": 0.05, "experts' dtype by GPU": 0.05}
STEPS = (2.5, 1.6, 1.25)
"""Factors by which a round of the search changes a scale."""


class Halves:
    """The figures of models with experts whose shape is known, by half, and how far they are off."""

    def __init__(self, used: Used) -> None:
        self.used = used
        self.keys = groups(used, "model")
        halves = half_of(used)
        experts = [case.model.family == "moe" and case.model.has_shape for _, case, _ in used]
        half = np.array([halves[row.model] for row, *_ in used])
        self.masks = [np.array(experts) & (half == number) for number in (0, 1)]

    def errors(self, scales: Mapping[str, float]) -> list[float]:
        """Mean absolute error of each half in percent, each model left out."""
        shipped = calibration()
        cases, seconds = [case for _, case, _ in self.used], [time for *_, time in self.used]
        posterior = Posterior(cases, seconds, shipped.coefficients, {**shipped.scales, **scales})
        off, _ = posterior.without(self.keys)
        return [100 * float(np.abs(np.expm1(off[mask])).mean()) for mask in self.masks]

    def fitted(self, half: int, rounds: int) -> dict[str, float]:
        """The scales with the least error of one half."""
        best, least = dict(START), self.errors(START)[half]
        for step in STEPS[:rounds]:
            for scales in _neighbours(best, step):
                error = self.errors(scales)[half]
                if error < least:
                    best, least = scales, error
        return best


def _neighbours(scales: Mapping[str, float], step: float) -> Iterator[dict[str, float]]:
    """One scale after the other, larger and smaller."""
    for name, value in scales.items():
        for factor in (step, 1 / step):
            yield {**scales, name: value * factor}


def main(rounds: int) -> None:
    """Print the error of each half before and after, and by the scales that ship."""
    halves, total = Halves(usable(table.shipped())), 0.0
    before, shipped = halves.errors(START), halves.errors({})
    for half in (0, 1):
        scales = halves.fitted(1 - half, rounds)
        figures, error = int(halves.masks[half].sum()), halves.errors(scales)[half]
        total += figures * error
        print(f"half {half}, {figures} figures: {before[half]:.1f} % at the start, {error:.1f} % by the other half "
              f"({', '.join(f'{name} {value:.2g}' for name, value in scales.items())}), "
              f"{shipped[half]:.1f} % by the scales that ship", flush=True)  # fmt: skip
    print(f"both, each by the other half: {total / sum(int(mask.sum()) for mask in halves.masks):.1f} %")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else len(STEPS))
