"""The figures of all cells as CSV rows: one row per cell, with the unit in the name of each column."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Fact, Scalar

from .cells import Cell
from .figures import by_name, measure_columns
from .verdicts import verdict

FIGURES = (
    ("step time", "step_time_s"),
    ("standard deviation", "step_time_std_s"),
    ("median", "step_time_median_s"),
    ("throughput", "tokens_per_s"),
    ("throughput per GPU", "tokens_per_s_per_gpu"),
    ("compute per GPU", "tflops_per_gpu"),
    ("MFU", "mfu_percent"),
    ("time for 1T tokens", "days_per_1t_tokens"),
    ("peak memory", "peak_memory_gb"),
    ("first loss", "loss_first"),
    ("last loss", "loss_last"),
    ("time to first step", "first_step_s"),
    ("GPU time", "gpu_hours"),
)
"""The name of a figure in a report (for CPU runs, `per rank`), and its column."""

COLUMNS = (
    "configuration", "verdict", "cause", "comparable", "workload", "size", "dtype", "gpu_type", "gpus",
    "global_batch_size", "sequence_length", "runs", "window", "steps_measured", "step_time_s", "step_time_low_s",
    "step_time_high_s", *(column for _, column in FIGURES[1:]), "run_ids",
)  # fmt: skip


def rows(cells: Sequence[Cell]) -> list[dict[str, Scalar]]:
    """One row per cell. The interval of the step time is the 95 % interval, measures are those of the newest run."""
    return [_row(cell) for cell in cells]


def columns(rows: Sequence[dict[str, Scalar]]) -> tuple[str, ...]:
    """The usual columns, and those of the measures that a row has."""
    return tuple(dict.fromkeys((*COLUMNS, *(name for row in rows for name in row))))


def _row(cell: Cell) -> dict[str, Scalar]:
    spec, result = cell.spec, cell.newest.result
    figures = {name.replace("per rank", "per GPU"): figure for name, figure in by_name(cell).items()}
    time = figures["step time"]
    window = result.window
    return {
        "configuration": cell.name,
        "verdict": verdict(cell).word,
        "cause": result.cause,
        "comparable": result.comparable,
        **{name: getattr(spec, name) for name in ("workload", "size", "dtype", "gpu_type", "gpus")},
        "global_batch_size": spec.global_batch_size,
        "sequence_length": spec.model.sequence_length,
        "runs": len(cell.runs),
        "window": None if window.first is None else f"{window.first}-{window.last}",
        "steps_measured": result.steps_measured,
        **{column: _value(figures.get(name)) for name, column in FIGURES},
        "step_time_low_s": time.low,
        "step_time_high_s": time.high,
        "run_ids": " ".join(run.record.run_id for run in cell.runs),
        **measure_columns(cell.newest.result),
    }


def _value(figure: Fact | None) -> Scalar:
    return figure.value if figure is not None else None
