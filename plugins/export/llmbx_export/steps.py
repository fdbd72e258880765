"""What the experiment trackers get of a run beside its measures: its configuration and the series of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .measures import Row, text

if TYPE_CHECKING:
    from llmbx.api import Step
    from llmbx.api.verbs import Run

SERIES = {
    "step_time_s": "time_s", "loss": "loss", "tflops_per_gpu": "tflops_per_gpu", "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}  # fmt: skip
"""Series by name -> member of a step. Times are in seconds, rates in TFLOP/s."""

CONFIGURATION = (
    "workload.", "recipe", "runtime", "launcher", "image.", "window.policy", "mfu.convention", "mfu.peak",
    "llmbx_version", "user", "experiment",
)  # fmt: skip
"""Columns, or beginnings of columns, that a run was started with."""

VERDICTS = ("status", "data_valid", "comparable", "stability.verdict", "cause")
"""Columns that say whether the figures can be used."""


def configuration(row: Row) -> dict[str, Any]:
    """The known values that the run was started with, by column."""
    return {name: value for name, value in row.items() if name.startswith(CONFIGURATION) and value is not None}


def figures(row: Row) -> dict[str, float]:
    """The known numbers that were measured, by column and in its unit."""
    chosen = configuration(row).keys()
    numbers = {name: value for name, value in row.items() if type(value) in (int, float)}
    return {name: value for name, value in numbers.items() if name not in chosen}


def verdicts(row: Row) -> dict[str, str]:
    """The known verdicts as texts."""
    return {name: text(row[name]) for name in VERDICTS if row[name] is not None}


def series(run: Run) -> Iterator[tuple[Step, dict[str, float]]]:
    """The known values of each step; NaN and infinity as the log printed them."""
    for step in run.read_steps():
        values = {name: getattr(step, member) for name, member in SERIES.items()}
        yield step, {name: value for name, value in values.items() if value is not None}
