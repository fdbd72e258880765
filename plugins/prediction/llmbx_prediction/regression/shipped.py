"""The shipped calibration, and the published figures that it is used with."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from importlib import resources

from llmbx.api import UsageError, Value, read_toml

from ..atlas.row import Row
from ..case import Case
from ..cost.rates import known
from ..cost.roofline import impossible

LEVEL = 0.9
"""Level of the intervals."""


class Calibration(Value, frozen=True, kw_only=True):
    """What benchmarks/predict/calibrate.py writes.

    `coefficients` multiply the terms, `scales` are the standard deviations of the kernel's components. `quantiles` are
    the widths of the intervals of `LEVEL` in standard deviations: by the kind of model and what is known of the
    configuration (`familiarity`), and for a layout without a published figure (`OWN_LAYOUT`).
    `outliers` are those of the shipped figures alone (`Posterior.outliers`): to find them takes four times as long as
    all else.
    """

    coefficients: dict[str, float]
    scales: dict[str, float]
    quantiles: dict[str, float]
    outliers: dict[str, float] = {}

    def width(self, case: Case, familiarity: str) -> float:
        """Half the width of a configuration's interval, in standard deviations, by its `familiarity`."""
        own = 0.0 if case.chosen else self.quantiles[OWN_LAYOUT]
        return max(own, self.quantiles[familiarity])


KINDS = ("dense", "experts")
"""Kinds of models. What a release changes for models with experts is not in any column of the tables: their errors are
two to three times as large as those of dense models, in standard deviations."""
KNOWN = ("model and GPU", "model", "GPU", "neither")
"""What published figures have in common with a configuration: its model on its GPU type, its model on other types only,
its GPU type with other models only, or neither."""
OWN_LAYOUT = "own layout"
"""A layout that its authors did not choose. Its width is measured on vTrain's sweeps: all other layouts were chosen."""


def familiarity(case: Case, known_cases: Iterable[Case]) -> str:
    """Which of `KINDS` and of `KNOWN` holds for a configuration, for example `dense: model`."""
    return f"{KINDS[bool(case.model.experts)]}: {_known(case, known_cases)}"


def _known(case: Case, known_cases: Iterable[Case]) -> str:
    pairs = {(published.model.name, published.gpu_type) for published in known_cases}
    if (case.model.name, case.gpu_type) in pairs:
        return "model and GPU"
    if any(model == case.model.name for model, _ in pairs):
        return "model" if any(gpu == case.gpu_type for _, gpu in pairs) else "neither"
    return "GPU" if any(gpu == case.gpu_type for _, gpu in pairs) else "neither"


@functools.cache
def calibration() -> Calibration:
    """The shipped calibration."""
    path = resources.files(__package__.rpartition(".")[0]) / "data" / "calibration.toml"
    return read_toml(path, Calibration)


def usable(rows: Sequence[Row]) -> list[tuple[Row, Case, float]]:
    """The rows that a prediction can learn from, with configuration and step time in seconds.

    Figures that are not benchmarks (`Row.is_benchmark`) are left out, as are rows whose dtype or parallelism is not
    published, GPUs without rates, and figures that their own configuration contradicts (`impossible`).
    """
    figures = []
    for row in rows:
        published = row.step_time_s is not None and row.tp is not None and row.is_benchmark
        if not published or row.gpu_type not in known():
            continue
        try:
            case = row.case()
        except UsageError:
            continue
        if case is None or row.step_time_s is None or not _has_peak(case):
            continue
        if impossible(case, row.step_time_s) is None:
            figures.append((row, case, row.step_time_s))
    return figures


def _has_peak(case: Case) -> bool:
    """Whether the peaks of the matrix products in this dtype and in BF16 are known."""
    try:
        known()[case.gpu_type].peak(case.dtype), known()[case.gpu_type].peak("bf16")
    except UsageError:
        return False
    return True
