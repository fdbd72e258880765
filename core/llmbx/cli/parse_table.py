"""Format the measurements of training logs: as tables like those of the recipes' scripts, and for CSV."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import asdict

from ..measure.measures import FIELDS
from .parse_rows import Row
from .terminal import measure_text

COLUMNS = (
    "path", "experiment", "format", "status", "window", "steps_measured", "step_time_mean_s", "step_time_std_s",
    "tflops_per_gpu_mean", "tflops_per_gpu_std", "tokens_per_s", "mfu", "stability", "stability_reason",
)  # fmt: skip
"""Columns of the CSV output, see `as_csv`. JSON has every member of a row."""


def as_csv(row: Row) -> dict[str, Any]:
    """The row with the parts of its stability as two columns, and each number of a measure as one."""
    named = {f"measures.{n}.{field}": getattr(m, field) for n, m in row.measures.items() for field in FIELDS}
    return {**asdict(row), **named, "stability": row.stability.verdict, "stability_reason": row.stability.reason}


def columns(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of the CSV output: the usual ones, and those of the measures that a row has."""
    found = dict.fromkeys(name for row in rows for name in row.measures)
    return (*COLUMNS, *(f"measures.{name}.{field}" for name in found for field in FIELDS))


def table(rows: Sequence[Row], full_names: bool = False) -> str:
    """Format the rows as the recipes' scripts do: one table per time unit and window, then the steady states."""
    steady = [row.replace(**asdict(row.steady), window_policy="auto") for row in rows if row.steady is not None]
    parts = [_tables(rows, full_names), _tables(steady, full_names)]
    return "\n".join(part for part in parts if part)


def _tables(rows: Sequence[Row], full_names: bool) -> str:
    groups = groupby(sorted(rows, key=_group), key=_group)
    return "\n".join(_group_table(unit, policy, list(members), full_names) for (unit, policy), members in groups)


def _group(row: Row) -> tuple[str, str]:
    return row.unit, row.window_policy or ""


def _group_table(unit: str, policy: str, rows: Sequence[Row], full_names: bool) -> str:
    what = "Elapsed Time (ms) and TFLOPS/GPU Analysis" if unit == "ms" else "Train Step Timing and TFLOPS Analysis"
    which = {"last": "last iteration", "auto": "steady state"}.get(policy, f"iterations {policy}")
    heads = ["Experiment", "Status", f"Time Mean ({unit})", f"Time Std ({unit})", "TFLOPS_per_GPU Mean",
             "TFLOPS_per_GPU Std"]  # fmt: skip
    chosen = policy in ("last", "auto")
    cells = [
        [*_cells(row, unit, full_names), *([row.window or "-"] if chosen else []), row.stability.verdict or "-"]
        for row in rows
    ]
    heads += ["Window"] if chosen else []
    heads.append("Stability")
    least = [10, 8, 13, 12, 19, 18, *[8] * 2]
    widths = [max(least[k], *(len(line[k]) for line in (heads, *cells))) for k in range(len(heads))]
    lines = [f"{what} ({which})", "=" * 80, _line(heads, widths), " ".join("-" * width for width in widths)]
    lines += [_line(line, widths) for line in cells]
    lines += [line for row in rows for line in _measure_lines(row, full_names)]
    if any(row.tflops_source == "recomputed" for row in rows):
        lines.append("* recomputed from step time and model FLOPs: the log has no figure or rounds it too coarsely")
    return "\n".join(lines) + "\n"


def _measure_lines(row: Row, full_names: bool) -> list[str]:
    name = row.path if full_names else row.experiment
    return [f"{name}: {measure}: {measure_text(known)}" for measure, known in row.measures.items()]


def _cells(row: Row, unit: str, full_names: bool) -> list[str]:
    scale = 1000 if unit == "ms" else 1
    mark = "*" if row.tflops_source == "recomputed" else ""
    return [
        row.path if full_names else row.experiment,
        row.status,
        _number(row.step_time_mean_s, scale, 3),
        _number(row.step_time_std_s, scale, 3),
        _number(row.tflops_per_gpu_mean, 1, 2) + mark,
        _number(row.tflops_per_gpu_std, 1, 2),
    ]


def _number(value: float | None, scale: int, digits: int) -> str:
    return f"{value * scale:.{digits}f}" if value is not None else "-"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])])
