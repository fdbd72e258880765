"""Estimate the node-hours and GPU-hours of a sweep from published step times or time limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from llmbx.api import RunSpec, UsageError, Value

from .cells import Cell

StepTime = Callable[[RunSpec], float | None]
"""Returns the published step time in seconds for exactly this specification, or None."""


class Cost(Value, frozen=True):
    """The cost of all repeats of one cell. `hours` is for one run (None: unknown), `source` is where it comes from.

    The GPU-hours of CPU runs are 0.
    """

    nodes: int
    source: str
    hours: float | None
    node_hours: float | None
    gpu_hours: float | None


def cost(cell: Cell, step_time_s: StepTime, runs: int | None = None) -> Cost:
    """Estimate the cost of `runs` repeats (None: all repeats of the cell).

    The hours of a run are the published step time times the number of steps, else the time limit.
    """
    spec, count = cell.spec, cell.repeats if runs is None else runs
    hours, source = _hours(spec, step_time_s(spec))
    gpus = 0 if spec.gpu_type == "cpu" else spec.gpus
    return Cost(
        nodes=spec.nodes,
        source=source,
        hours=hours,
        node_hours=None if hours is None else spec.nodes * hours * count,
        gpu_hours=0.0 if gpus == 0 else None if hours is None else gpus * hours * count,
    )


def _hours(spec: RunSpec, step_time_s: float | None) -> tuple[float | None, str]:
    if step_time_s is not None:
        return spec.steps * step_time_s / 3600, "published step time"
    if spec.walltime_minutes is not None:
        return spec.walltime_minutes / 60, "time limit"
    return None, "unknown"


def total(costs: Iterable[Cost], member: str) -> tuple[float, int]:
    """The sum of the known values of `member` (node_hours, gpu_hours), and the number of cells without a value."""
    values = [getattr(cost, member) for cost in costs]
    stated = [value for value in values if value is not None]
    return sum(stated), len(values) - len(stated)


def require_below(costs: Iterable[Cost], limit: float) -> None:
    """Raise `UsageError` if the GPU-hours exceed `limit` or are unknown for some cells."""
    if not (math.isfinite(limit) and limit >= 0):
        raise UsageError(f"--max-gpu-hours {limit:g}: expected a finite number >= 0")
    hours, unknown = total(costs, "gpu_hours")
    if unknown:
        raise UsageError(
            f"--max-gpu-hours {limit:g}: the GPU-hours of {unknown} cells are unknown; set a time limit with --walltime"
        )
    if hours > limit:
        raise UsageError(f"--max-gpu-hours {limit:g}: the sweep would take {hours:,.1f}; nothing was submitted")
