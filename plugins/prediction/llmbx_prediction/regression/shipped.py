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
    configuration (`familiarity`), and for a layout without a published figure (`OWN_LAYOUT`). `stacks` multiplies them
    for configurations of these stacks. `models` counts the models that were left out whole, by kind; a kind with too
    few has no width.
    `outliers` are those of the shipped figures alone (`Posterior.outliers`): to find them takes four times as long as
    all else.
    """

    coefficients: dict[str, float]
    scales: dict[str, float]
    quantiles: dict[str, float]
    stacks: dict[str, float] = {}
    models: dict[str, int] = {}
    outliers: dict[str, float] = {}

    def width(self, case: Case, familiarity: str) -> float | None:
        """Half the width of the interval of a configuration of this familiarity, in standard deviations.

        None if nothing tells it.
        """
        if familiarity not in self.quantiles:
            return None
        usual = self.quantiles[familiarity] * (1.0 if STACK in familiarity else self.stacks.get(case.stack, 1.0))
        return usual if case.chosen else max(usual, self.quantiles[OWN_LAYOUT])


KINDS = ("dense", "experts")
"""Kinds of models. What a release changes for models with experts is not in any column of the tables: their errors are
up to twice as large as those of dense models, in standard deviations."""
KNOWN = ("model and GPU", "model")
"""What published figures have in common with a configuration whose model has some: its model on its GPU type, or its
model on other types only."""
UNSEEN = "no figure of the model"
"""What is known of a model without any figure: its kind, whose models are left out whole to measure the interval."""
GPU = "no figure of the GPU type"
"""No model has a figure on the GPU type."""
STACK = "no figure of the stack"
"""No model has a figure of the stack."""
OWN_LAYOUT = "own layout"
"""A layout that its authors did not choose. Its width is measured on vTrain's sweeps: all other layouts were chosen."""


def familiarity(case: Case, known_cases: Iterable[Case]) -> str:
    """What is known of a configuration, for example `dense: model`: the least that anything known has in common."""
    others = list(known_cases)
    if not any(other.stack == case.stack for other in others):
        return f"{kind(case)}: {STACK}"
    if not any(other.gpu_type == case.gpu_type for other in others):
        return f"{kind(case)}: {GPU}"
    gpu_types = {other.gpu_type for other in others if other.model.name == case.model.name}
    return f"{kind(case)}: {KNOWN[case.gpu_type not in gpu_types] if gpu_types else UNSEEN}"


def kind(case: Case) -> str:
    """The kind of the model, one of `KINDS`."""
    return KINDS[bool(case.model.experts)]


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
    return [figure for row in rows if (figure := _figure(row)) is not None]


@functools.lru_cache(maxsize=4096)
def _figure(row: Row) -> tuple[Row, Case, float] | None:
    if row.step_time_s is None or row.tp is None or not row.is_benchmark or row.gpu_type not in known():
        return None
    try:
        case = row.case()
    except UsageError:
        return None
    if case is None or not _has_peak(case) or impossible(case, row.step_time_s) is not None:
        return None
    return row, case, row.step_time_s


def _has_peak(case: Case) -> bool:
    """Whether the peaks of the matrix products in this dtype and in BF16 are known."""
    try:
        known()[case.gpu_type].peak(case.dtype), known()[case.gpu_type].peak("bf16")
    except UsageError:
        return False
    return True
