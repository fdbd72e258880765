"""Rules for one rank that works longer than its peers, or that stands still at times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .budget import Part
from .case import Case, is_certain
from .clocks import Floats
from .finding import Finding, Line
from .gpus import clock_is_usual, has_foreign_process

FAULTS = 20.0
"""Major faults a second of a rank that waits for its memory."""
BURST = 1.25
"""A step that takes this much longer than the median is one in which a rank stood still."""
CPU_SHARE = 0.5
"""Share of what a rank takes longer that it must have run, to say that it computes more."""
CLIPPED = 1.1
SLEPT = 0.5
"""Share of the time that a rank stood still in which it must neither have run nor been ready."""
FEW = 8
"""In a group of more ranks, the median of all is that of the peers."""


def ranks(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to ranks that work longer than their peers."""
    base = np.empty_like(case.work)
    for first, last in case.groups:
        base[first:last] = _usual(case.work[first:last])
    signed = case.work - base
    means = signed.mean(axis=1)
    for row in np.flatnonzero(means >= case.least_s):
        excess = np.maximum(0, signed[row])
        if means[row] >= case.least_of(int(row)) and is_certain(signed[row]):
            yield from _causes(case, int(row), excess)


def _usual(work: Floats) -> Floats:
    """Return what each rank of a group would take: its peers' median, or alone its own without pauses."""
    usual = np.median(work, axis=1, keepdims=True)
    if len(work) == 1:
        return np.where(work > BURST * usual, usual, work)
    steady = np.minimum(work, CLIPPED * usual)
    if len(work) > FEW:
        return np.tile(np.median(steady, axis=0), (len(work), 1))
    rows = range(len(work))
    return np.array([np.median(np.delete(steady, row, axis=0), axis=0) for row in rows])


def _causes(case: Case, row: int, excess: Floats) -> Iterator[Finding]:
    rank, peers = case.clocks.ranks[row], case.peers(row)
    clock = [_waits_least(case, row, excess)]
    crowded = _threads(case, row)
    if crowded is not None:
        yield _finding("threads", case, row, excess, [*clock, crowded])
        return
    if case.clocks.devices[row] != "cpu":
        yield _slow_gpu(case, row, excess, clock)
        return
    ran = float(case.ran[row] - np.median(case.ran[peers])) if peers else 0.0
    computes = float(np.clip(ran / excess.mean(), 0, 1)) if case.ran.any() else 1.0
    computes = 1.0 if computes > 1 - CPU_SHARE / 2 else 0.0 if computes < CPU_SHARE / 2 else computes
    stands = (1 - computes) * excess
    slept = max(0.0, float(case.off[row] - case.clocks.phases["data"][row].mean()))
    if stands.mean() >= case.least_s and slept > SLEPT * stands.mean():
        yield _standing(case, row, stands, clock)
    elif ran > 0 or not case.ran.any():
        computes = 1.0
    if computes * excess.mean() >= case.least_s:
        more = (
            [Line("counter", f"telemetry: rank{rank}.ran: {ran:.3g} s a step more than its peers")]
            if ran > 0 and case.ran.any()
            else []
        )
        cause = "expert-imbalance" if case.has_experts else "slow-rank"
        yield _finding(cause, case, row, computes * excess, [*clock, *more])


def _slow_gpu(case: Case, row: int, excess: Floats, clock: list[Line]) -> Finding:
    """What ran on a GPU is not in the times of the host's threads."""
    foreign, usual = has_foreign_process(case, row), clock_is_usual(case, row)
    if foreign is not None:
        return _finding("foreign-gpu-process", case, row, excess, [*clock, foreign])
    if case.has_experts:
        return _finding("expert-imbalance", case, row, excess, clock)
    return _finding("slow-gpu", case, row, excess, [*clock, *([usual] if usual else [])])


def _standing(case: Case, row: int, times: Floats, clock: list[Line]) -> Finding:
    """A rank that neither ran nor was ready: its memory, its disk, or somebody who paused it."""
    rank = case.clocks.ranks[row]
    faults = case.per_second("major_faults")[row]
    if faults > FAULTS:
        swapped = case.counters.level_of_rank("swap")[row]
        paged = np.nan_to_num(case.counters.of_node(["paging.swap_in"])[row]).sum()
        lines = [*clock, Line("counter", f"telemetry: rank{rank}.major_faults: {faults:.3g} a second")]
        if paged > 0 and np.nan_to_num(swapped).max(initial=0) > 0:
            text = f"telemetry: paging.swap_in: {paged:.0f} pages; rank{rank}.swap: {np.nanmax(swapped) / 1024:.0f} MiB"
            return _finding("swap", case, row, times, [*lines, Line("counter", text)])
        return _finding("memory-pressure", case, row, times, lines)
    share, number = case.share_in_state(row, "Tt")
    lines = [
        *clock,
        Line("counter", f"telemetry: rank{rank}: neither ran nor was ready for {case.off[row]:.3g} s a step"),
    ]
    if number:
        lines.append(Line("counter", f"telemetry: rank{rank}.state: stopped in {number} samples ({100 * share:.0f} %)"))
    return _finding("paused-process", case, row, times, lines)


def _threads(case: Case, row: int) -> Line | None:
    threads, cores = case.run.threads[row] if row < len(case.run.threads) else (None, None)
    if threads is None or cores is None or threads <= cores:
        return None
    return Line("configuration", f"step_clocks/rank-{case.clocks.ranks[row]}.bin: {threads} threads on {cores} cores")


def _waits_least(case: Case, row: int, excess: Floats) -> Line:
    rank, peers = case.clocks.ranks[row], case.peers(row)
    waits = case.clocks.phases["wait"].mean(axis=1)
    if not peers:
        steps = int((excess > 0).sum())
        return Line(
            "clock",
            f"step_clocks/rank-{rank}.bin: {steps} steps take {excess[excess > 0].mean():.3g} s longer than the median",
        )
    works, theirs = case.work[row].mean(), float(np.median(case.work[peers].mean(axis=1)))
    return Line(
        "clock",
        f"step_clocks/rank-{rank}.bin: works {works:.3g} s a step and waits {waits[row]:.3g} s; "
        f"the others {theirs:.3g} and {float(np.median(waits[peers])):.3g} s",
    )


def _finding(cause: str, case: Case, row: int, times: Floats, lines: list[Line]) -> Finding:
    own = np.zeros_like(case.clocks.own)
    own[row] = times
    return Finding(id=cause, part=Part(own=own), lines=lines, row=row)
