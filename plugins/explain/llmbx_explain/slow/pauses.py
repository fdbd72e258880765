"""Rules for ranks that stand still: they neither run nor are ready, and wait for nobody."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import BURST, Case
from .clocks import Floats
from .finding import Finding, Line
from .ranks import of_row, waits_least

LONG = 3.0
"""Communication that takes this many times the median, in a step, is one in which a rank stood still."""
COVERED = 0.4
"""Share of the time that a rank slept that has to be seen in its steps."""


def pauses(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to ranks that stood still at times."""
    if not case.ran.any():
        return
    slept = np.maximum(0, case.asleep - case.clocks.phases["data"].mean(axis=1))
    for row in range(len(slept)):
        alone = float(slept[row] - (np.median(np.delete(slept, row)) if len(slept) > 1 else 0.0))
        stopped, number = case.share_in_state(row, "Tt")
        likely_s = max(alone, (alone + stopped * case.step_s) / 2)  # while it is stopped, all may wait
        least_s = case.least_s if number else case.usual_s
        if case.clocks.devices[row] != "cpu" or alone < least_s:
            continue
        own, shared = _bursts(case, row), _long(case)
        shared = shared * np.clip((likely_s - own.mean()) / max(shared.mean(), 1e-9), 0, 1)
        if own.mean() + shared.mean() >= max(least_s, COVERED * alone):
            yield _finding(case, row, own, shared, alone)


def _bursts(case: Case, row: int) -> Floats:
    """By how much single steps of a rank take longer than its median; or all than its peers'."""
    work = case.work[row]
    usual = float(np.median(work))
    bursts = np.where(work > BURST * usual, work - usual, 0.0)
    steady = case.longer(row) if case.peers(row) else np.zeros_like(work)
    return steady if steady.mean() >= max(case.least_of(row), bursts.mean()) else bursts


def _long(case: Case) -> Floats:
    """By how much the communication of single steps is longer than usual."""
    shared = case.clocks.shared
    usual = float(np.median(shared))
    return np.where(shared > LONG * usual, shared - usual, 0.0)


def _finding(case: Case, row: int, own: Floats, shared: Floats, slept: float) -> Finding:
    rank = case.clocks.ranks[row]
    steps = np.flatnonzero((own > 0) | (shared > 0))
    share, number = case.share_in_state(row, "Tt")
    text = f"step_clocks: {len(steps)} steps take up to {(own + shared).max():.3g} s longer than the median"
    lines = [waits_least(case, row), Line("clock", text)]
    lines.append(
        Line(
            "counter", f"telemetry: rank{rank}: neither ran nor was ready for {slept:.3g} s a step more than the others"
        )
    )
    if number:
        lines.append(Line("counter", f"telemetry: rank{rank}.state: stopped in {number} samples ({100 * share:.0f} %)"))
    return of_row("paused-process", case, row, own, lines, shared)
