"""The rule for GPUs of which each computes for another program, too: no rank is slower than its peers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .budget import Part
from .case import Case
from .clocks import Floats
from .finding import Finding, Line
from .gpus import has_foreign_process

FEWEST = 5
"""Steps with and without the other program that are compared at least."""


def shared_gpus(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to other programs, by the other run or by the steps in which they were not there."""
    lines = [has_foreign_process(case, row) for row in range(len(case.clocks.ranks))]
    rows = [row for row, line in enumerate(lines) if line is not None]
    if not rows or any(lines[peer] is None for row in rows for peer in case.peers(row)):
        return  # a rank is compared with its peers by a rule of its own
    evidence = [line for line in lines if line is not None][:1]
    times = _times(case, rows)
    row = rows[0] if len(rows) == 1 and len(lines) > 1 else None
    if times is None:
        yield Finding(id="foreign-gpu-process", part=Part(), lines=evidence, row=row, is_measured=False)
    elif times.mean(axis=1).max() >= case.least_s:
        text = f"step_clocks: rank {case.clocks.ranks[rows[0]]} works {times[rows[0]].mean():.3g} s a step longer"
        against = "than in the other run" if case.healthy else "than without the other program"
        lines_of_both = [*evidence, Line("clock", f"{text} {against}")]
        yield Finding(id="foreign-gpu-process", part=Part(own=times), lines=lines_of_both, row=row)


def _times(case: Case, rows: list[int]) -> Floats | None:
    """By how much the ranks work longer in each step; None if there is nothing to compare with."""
    times = np.zeros_like(case.work)
    for row in rows:
        beside = np.nan_to_num(case.counters.level_of_gpu("foreign_processes")[row]) > 0
        usual = _usual_s(case, row, beside)
        if usual is None:
            return None
        times[row] = np.where(beside, np.maximum(0.0, case.work[row] - usual), 0.0)
    return times


def _usual_s(case: Case, row: int, beside: np.ndarray) -> float | None:
    healthy = case.healthy
    if healthy is not None and row < len(healthy.work) and has_foreign_process(healthy, row) is None:
        return float(np.median(healthy.work[row]))
    if min(beside.sum(), (~beside).sum()) < FEWEST:
        return None
    return float(np.median(case.work[row][~beside]))
