"""What a sweep takes before it runs: node-hours and GPU-hours, from published step times or time limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from llmbx.errors import UsageError
from llmbx.model import RunSpec, Value

from .cells import Cell

StepTime = Callable[[RunSpec], float | None]
"""The published seconds a step for exactly this specification, or None."""


class Cost(Value, frozen=True):
    """What all repeats of one cell take. `hours` is one run's; None is unknown, and `source` says where it is from.

    A run on CPU takes no GPU: its GPU-hours are known to be 0.
    """

    nodes: int
    source: str
    hours: float | None
    node_hours: float | None
    gpu_hours: float | None


def cost(cell: Cell, step_time_s: StepTime, runs: int | None = None) -> Cost:
    """The cost of `runs` repeats (None: all of them): the published step time for all steps, else the time limit."""
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
    """The sum of what is known of `member` (node_hours, gpu_hours), and for how many cells it is unknown."""
    values = [getattr(cost, member) for cost in costs]
    known = [value for value in values if value is not None]
    return sum(known), len(values) - len(known)


def require_below(costs: Iterable[Cost], limit: float) -> None:
    """Raise `UsageError` when the GPU-hours exceed `limit`, or when nobody can say that they do not."""
    if not (math.isfinite(limit) and limit >= 0):
        raise UsageError(f"--max-gpu-hours {limit:g}: expected a finite number of at least 0")
    hours, unknown = total(costs, "gpu_hours")
    if unknown:
        raise UsageError(
            f"--max-gpu-hours {limit:g}: the GPU-hours of {unknown} cells are unknown; set a limit with --walltime"
        )
    if hours > limit:
        raise UsageError(f"--max-gpu-hours {limit:g}: the sweep would take {hours:,.1f}; nothing was submitted")
