"""Rules for ranks that wait for their memory: swapped out, or read again from files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import Case
from .clocks import Floats
from .finding import Finding, Line
from .ranks import of_row, waits_least

FAULTS = 20.0
"""Major faults a second of a rank that waits for its memory."""
ACTIVE = 0.1
"""Share of the mean from which a step has faults."""
LEAST_STEPS = 5


def memory(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to major faults of a rank."""
    faults = np.nan_to_num(case.counters.of_rank("major_faults"))
    rates = case.per_second("major_faults")
    for row in map(int, np.flatnonzero(rates > FAULTS)):
        times = _longer(case, row, faults[row])
        if times.mean() >= case.least_s:
            yield _finding(case, row, times, float(rates[row]))


def _longer(case: Case, row: int, faults: Floats) -> Floats:
    """By how much steps with faults take longer than those without, or than the peers'."""
    active = faults > ACTIVE * faults.mean()
    beside = np.maximum(0, case.excess[row]) if case.peers(row) else np.zeros_like(faults)
    if (~active).sum() < LEAST_STEPS:
        return beside
    usual = float(np.median(case.work[row, ~active]))
    before = np.where(active, np.maximum(0, case.work[row] - usual), 0.0)
    return before if before.mean() > beside.mean() else beside


def _finding(case: Case, row: int, times: Floats, rate: float) -> Finding:
    rank = case.clocks.ranks[row]
    lines = [waits_least(case, row)]
    lines.append(Line("counter", f"telemetry: rank{rank}.major_faults: {rate:.3g} a second"))
    swapped = float(np.nan_to_num(case.counters.level_of_rank("swap")[row]).max(initial=0))
    paged = float(np.nan_to_num(case.counters.of_node(["paging.swap_in"])[row]).sum())
    if swapped <= 0 or paged <= 0:
        return of_row("memory-pressure", case, row, times, lines)
    text = f"telemetry: paging.swap_in: {paged:.0f} pages; rank{rank}.swap: {swapped / 1024:.0f} MiB"
    return of_row("swap", case, row, times, [*lines, Line("counter", text)])
