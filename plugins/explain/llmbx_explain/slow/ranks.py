"""Rules for one rank that works longer than its peers, or that stands still at times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .budget import Part
from .case import Case, is_certain, moves_with
from .clocks import Floats
from .finding import Finding, Line
from .gpus import clock_is_usual, has_foreign_process, is_far_from_gpu

CPU_SHARE = 0.5
"""Share of what a rank takes longer that it must have run, to say that it computes more."""
ROUTED = 0.4
"""Correlation of a rank's work with what its peers do less: tokens that one expert gets, another does not."""


def ranks(case: Case) -> Iterator[Finding]:
    """Yield what steps lost to ranks that work longer than their peers."""
    means = case.excess.mean(axis=1)
    for row in map(int, np.flatnonzero(means >= case.least_s)):
        if means[row] < case.least_of(row) or not is_certain(case.excess[row]):
            continue
        if case.is_unusual(row):
            yield _cause(case, row, case.longer(row))


def _cause(case: Case, row: int, excess: Floats) -> Finding:
    rank, peers = case.clocks.ranks[row], case.peers(row)
    clock = [waits_least(case, row)]
    crowded = _threads(case, row)
    if crowded is not None:
        return of_row("threads", case, row, excess, [*clock, crowded])
    if case.clocks.devices[row] != "cpu":
        return _slow_gpu(case, row, excess, clock)
    ran = float(case.ran[row] - np.median(case.ran[peers])) if peers else 0.0
    if ran > CPU_SHARE * excess.mean():
        clock.append(Line("counter", f"telemetry: rank{rank}.ran: {ran:.3g} s a step more than its peers"))
    return _imbalance(case, row, excess, clock) or of_row("slow-rank", case, row, excess, clock)


def _imbalance(case: Case, row: int, excess: Floats, lines: list[Line]) -> Finding | None:
    """Tokens that an expert gets are not with others: what a rank does more in a step, its peers do less."""
    peers = case.peers(row)
    if not case.has_experts or not peers:
        return None
    routed = moves_with(case.work[row], -case.work[peers].mean(axis=0))
    if routed < ROUTED:
        return None
    text = f"step_clocks: what it works more in a step, its peers work less (correlation {-routed:.2f})"
    experts = Line("configuration", "configs/final.json: experts are shared out over the ranks")
    balanced = excess * len(peers) / (len(peers) + 1)  # then the others do what it does not
    return of_row("expert-imbalance", case, row, balanced, [*lines, Line("clock", text), experts])


def _slow_gpu(case: Case, row: int, excess: Floats, clock: list[Line]) -> Finding:
    """What ran on a GPU is not in the times of the host's threads."""
    foreign, usual = has_foreign_process(case, row), clock_is_usual(case, row)
    if foreign is not None:
        return of_row("foreign-gpu-process", case, row, excess, [*clock, foreign])
    far, imbalance = is_far_from_gpu(case, row), _imbalance(case, row, excess, clock)
    if far is not None:
        return of_row("numa-binding", case, row, excess, [*clock, far])
    if imbalance is not None:
        return imbalance
    return of_row("slow-gpu", case, row, excess, [*clock, *([usual] if usual else [])])


def _threads(case: Case, row: int) -> Line | None:
    threads, cores = case.run.threads[row] if row < len(case.run.threads) else (None, None)
    if threads is None or cores is None or threads <= cores:
        return None
    return Line("configuration", f"step_clocks/rank-{case.clocks.ranks[row]}.bin: {threads} threads on {cores} cores")


def waits_least(case: Case, row: int) -> Line:
    """Return how long a rank works and waits, beside the others."""
    rank, peers = case.clocks.ranks[row], case.peers(row)
    works, waits = case.clocks.own.mean(axis=1), case.clocks.phases["wait"].mean(axis=1)
    text = f"step_clocks/rank-{rank}.bin: works {works[row]:.3g} s a step and waits {waits[row]:.3g} s"
    if peers:
        text += f"; the others {float(np.median(works[peers])):.3g} and {float(np.median(waits[peers])):.3g} s"
    return Line("clock", text)


def of_row(
    cause: str,
    case: Case,
    row: int,
    times: Floats,
    lines: list[Line],
    shared: Floats | None = None,
) -> Finding:
    """Return a finding about time of one rank, and about communication if it is given."""
    own = np.zeros_like(case.clocks.own)
    own[row] = times
    part = Part(own=own, shared=shared)
    return Finding(id=cause, part=part, lines=lines, row=row)
