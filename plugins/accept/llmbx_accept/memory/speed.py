"""The speed of nodes relative to the others, from the step times of the runs that they took part in.

Training is synchronous: the slowest node of a run sets its step time. A node is slower than the others if the runs with
it take longer than runs of the same work without it. The slowest node is found first; then its runs say nothing more
about those that ran beside it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from statistics import fmean, median, median_low

from llmbx.api import Value
from llmbx_verdict.statistics.student_t import quantile

from .attendance import Attendance

FALSE_ALARM = 0.001
"""Probability that any of the nodes of a healthy install is suspected in one look at it."""

LEAST = 0.01
"""A node that is slower by less than this fraction is no suspect, however sure that is."""

LEAST_RUNS = 2
"""Runs with a node before it is suspected: one slow run may have had other reasons."""

LEAST_OTHERS = 3
"""Runs without a node that its own are compared with."""

LEVEL = 0.95
"""Probability that the interval contains the true value."""

FLOOR = 0.001
"""Smallest standard deviation from run to run: means are rounded, and few runs may be equal by chance."""

MEDIAN = 2 / math.pi
"""Efficiency of the median beside the mean."""

UNKNOWN_SPREAD, UNKNOWN_DOF = 0.0054, 3.0
"""Standard deviation from run to run if no work was repeated: the 90th percentile of MLPerf's repeats."""


class Speed(Value, frozen=True):
    """How much longer runs take with a node than without it, as a fraction (0.05: 5 %), with its 95 % interval.

    `together` are other nodes that took part in the same runs and in no others: one of them may be the cause.
    """

    slower: float
    low: float
    high: float
    runs: int
    suspect: bool
    together: tuple[str, ...] = ()


def speeds(attendances: Sequence[Attendance]) -> dict[str, Speed]:
    """The speed of each node of which something can be said, by name."""
    measured = [witness for witness in attendances if witness.step_s is not None and witness.hosts]
    suspects: dict[str, Speed] = {}
    while True:
        others = [witness for witness in measured if not suspects.keys() & set(witness.hosts)]
        estimates = _estimates(others)
        worst = max(
            (host for host, speed in estimates.items() if speed.suspect),
            key=lambda host: _fastest(host, others),
            default=None,
        )
        if worst is None:
            return {**estimates, **suspects}
        suspects |= {host: estimates[host] for host in (worst, *estimates[worst].together)}


def _fastest(host: str, measured: Sequence[Attendance]) -> float:
    """By how much its fastest run is longer than the median of the same work: with a slow node each of them is long."""
    logs: dict[str, list[float]] = defaultdict(list)
    for witness in measured:
        logs[witness.work].append(_log(witness))
    return min(_log(witness) - median(logs[witness.work]) for witness in measured if host in witness.hosts)


def _estimates(measured: Sequence[Attendance]) -> dict[str, Speed]:
    """Each node against the runs without it."""
    runs: dict[str, list[Attendance]] = defaultdict(list)
    works: dict[str, list[Attendance]] = defaultdict(list)
    for witness in measured:
        works[witness.work].append(witness)
        for host in witness.hosts:
            runs[host].append(witness)
    deviation, dof = spread(works.values())
    sure = quantile(1 - FALSE_ALARM / max(1, len(runs)), dof)
    half = quantile((1 + LEVEL) / 2, dof)
    estimates = {}
    for host, own in runs.items():
        excesses, others = _excesses(host, own, works)
        if not excesses:
            continue
        slower = median_low(excesses)  # of two runs, the faster: one slow run may have had other reasons
        error = deviation * math.sqrt((1 / len(excesses) + 1 / others) / MEDIAN)
        estimates[host] = Speed(
            slower=math.expm1(slower),
            low=math.expm1(slower - half * error),
            high=math.expm1(slower + half * error),
            runs=len(excesses),
            suspect=len(excesses) >= LEAST_RUNS and slower > max(sure * error, LEAST),
            together=_together(host, own, runs),
        )
    return estimates


def _excesses(host: str, own: Sequence[Attendance], works: dict[str, list[Attendance]]) -> tuple[list[float], float]:
    """By how much each of its runs is longer, in logarithms, and the number of runs that they are compared with."""
    excesses: list[float] = []
    others: list[int] = []
    for work in {witness.work for witness in own}:
        without = [_log(other) for other in works[work] if host not in other.hosts]
        if len(without) < LEAST_OTHERS:
            continue
        usual = median(without)
        mine = [_log(witness) - usual for witness in own if witness.work == work]
        excesses += mine
        others += [len(without)] * len(mine)
    return excesses, fmean(others) if others else 0.0


def spread(works: Collection[Sequence[Attendance]]) -> tuple[float, float]:
    """The standard deviation from run to run, in logarithms, and its degrees of freedom.

    From the differences to the median: a slow node makes some runs slow, and must not hide in the spread.
    """
    repeated = [[_log(witness) for witness in work] for work in works if len(work) >= LEAST_OTHERS]
    differences = [abs(value - median(work)) for work in repeated for value in work]
    if not differences:
        return UNKNOWN_SPREAD, UNKNOWN_DOF
    dof = max(1.0, 0.37 * (len(differences) - len(repeated)))  # efficiency of the median of absolute differences
    inflation = math.sqrt(len(differences) / (len(differences) - len(repeated)))
    return max(FLOOR, 1.4826 * median(differences) * inflation), dof


def _together(host: str, own: Sequence[Attendance], runs: dict[str, list[Attendance]]) -> tuple[str, ...]:
    ids = [witness.run for witness in own]
    companions = set(own[0].hosts).intersection(*(witness.hosts for witness in own)) - {host}
    return tuple(sorted(other for other in companions if [witness.run for witness in runs[other]] == ids))


def _log(witness: Attendance) -> float:
    assert witness.step_s is not None
    return math.log(witness.step_s)
