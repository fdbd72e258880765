"""Map steps on the CPU to time windows on a device.

GPU execution is asynchronous: a step's kernels may start long after its range has ended. The window of a step therefore
begins with the first kernel that the step launched, so each point in time belongs to exactly one step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from llmbx.api import Value

from .activity import lane_expression
from .database import PROCESS, Database
from .ranges import StepRange

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_SEARCH_NS = (2_000_000, 2_000_000_000)
"""Nanoseconds after a step's start to search for its first CUDA call; a step may load data first. Tried in order."""
_SEARCH_CALLS = (200, 50_000)
"""CUDA calls after the first to search for the first kernel; a step may copy and allocate first. Tried in order."""
_MAX_SPANS = 8
"""Maximum number of spans per query: SQLite tests every row against every span, so close spans are merged."""

Edge = tuple[int, int]
"""A process or lane, and a time."""


class Window(Value, frozen=True):
    """The time [start, end) of a step on one device; `number` is None if the window is the whole capture."""

    number: int | None
    start: int
    end: int


def windows(
    database: Database, steps: Sequence[StepRange], lanes: dict[int, tuple[int, int]]
) -> dict[int, list[Window]]:
    """Return the windows of each lane, in order. `lanes` maps each lane's key to its first start and last end.

    If launches were not recorded, the ranges on the CPU are the windows; without ranges, the window is the capture.
    """
    first_kernels = _first_kernels(database, steps)
    by_lane = {}
    for lane, (first, last) in lanes.items():
        mine = [step for step in steps if step.process == lane & PROCESS]
        if not mine and len({step.process for step in steps}) == 1:
            mine = list(steps)
        if mine:
            by_lane[lane] = _lane_windows(mine, {k: t for (key, k), t in first_kernels.items() if key == lane}, last)
        else:
            by_lane[lane] = [Window(number=None, start=first, end=last)]
    return by_lane


def _lane_windows(steps: Sequence[StepRange], kernels: dict[int, int], last: int) -> list[Window]:
    """Return windows from each step's first kernel to that of the next step, or to the end of the step's own work."""
    projected = bool(kernels)
    windows = []
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        start = kernels.get(step.start, step.start)
        if after is not None and after.number == step.number + 1:
            end = kernels.get(after.start, after.start)
        else:
            end = kernels.get(step.end, max(last, step.end) if projected and after is None else step.end)
        if end > start:
            windows.append(Window(number=step.number, start=start, end=end))
    return windows


def _first_kernels(database: Database, steps: Sequence[StepRange]) -> dict[Edge, int]:
    """Return the start of the first kernel launched after the start and end of each step, by (lane, CPU time)."""
    needed = {"start", "correlationId", "globalTid"}
    if not steps or not needed <= database.columns(_RUNTIME) or "correlationId" not in database.columns(_KERNEL):
        return {}
    starts = {(step.process, step.start) for step in steps}
    ends = {(step.process, step.end) for step in steps} - starts
    launches = _first_calls(database, starts, ends)
    kernels: dict[Edge, int] = {}
    missing = dict(launches)
    for limit in _SEARCH_CALLS:
        kernels |= _kernels_after(database, missing, limit)
        seen = {(lane & PROCESS, time) for lane, time in kernels}
        # There may be no launch after the last step, so ends of steps are searched for only once.
        missing = {edge: call for edge, call in missing.items() if edge in starts and not seen & {edge, (0, edge[1])}}
        if not missing:
            break
    return kernels


def _first_calls(database: Database, starts: set[Edge], ends: set[Edge]) -> dict[Edge, int]:
    """Return the number of the first CUDA call after each (process, time); numbers increase within a process."""
    calls: dict[Edge, int] = {}
    missing = starts | ends
    for limit in _SEARCH_NS:
        calls |= _calls_after(database, missing, limit)
        missing = starts - calls.keys()
        if not missing:
            break
    return calls


def _calls_after(database: Database, edges: Iterable[Edge], limit: int) -> dict[Edge, int]:
    calls: dict[int, list[tuple[int, int]]] = {}
    for low, high in _merge_spans((time, time + limit) for _, time in edges):
        rows = database.rows(
            f"SELECT globalTid & {PROCESS}, start, correlationId FROM {_RUNTIME} "
            f"WHERE start BETWEEN {low} AND {high} AND {database.rows_near(_RUNTIME, 'start', low, high)}",
            tuple[int | None, int, int | None],
        )
        for process, start, number in rows:
            if process is not None and number is not None:
                calls.setdefault(process, []).append((start, number))
    for of_process in calls.values():
        of_process.sort()
    numbers = {}
    for process, time in edges:
        mine = calls.get(process, [])
        low, high = bisect_left(mine, (time,)), bisect_left(mine, (time + limit,))
        if low < high:
            numbers[process, time] = min(number for _, number in mine[low:high])
    return numbers


def _kernels_after(database: Database, launches: Mapping[Edge, int], limit: int) -> dict[Edge, int]:
    """Return the earliest start of the kernels launched by the next `limit` calls from each launch, by (lane, time)."""
    spans = _merge_spans((number, number + limit) for number in launches.values())
    if not spans:
        return {}
    rows = database.rows(
        f"SELECT {lane_expression(database, _KERNEL)}, correlationId, start FROM {_KERNEL} WHERE "
        + " OR ".join(f"correlationId BETWEEN {low} AND {high}" for low, high in spans),
        tuple[int, int, int],
    )
    kernels: dict[int, list[tuple[int, int]]] = {}
    for lane, number, start in rows:
        kernels.setdefault(lane, []).append((number, start))
    earliest = {}
    for lane, mine in kernels.items():
        mine.sort()
        for (process, time), number in launches.items():
            if lane & PROCESS in (process, 0):
                near = mine[bisect_left(mine, (number,)) : bisect_left(mine, (number + limit,))]
                if near:
                    earliest[lane, time] = min(start for _, start in near)
    return earliest


def _merge_spans(spans: Iterable[tuple[int, int]], most: int = _MAX_SPANS) -> list[tuple[int, int]]:
    """Merge overlapping spans, and then the closest ones until at most `most` are left."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    while len(merged) > most:
        gaps = [later[0] - earlier[1] for earlier, later in pairwise(merged)]
        index = gaps.index(min(gaps))
        merged[index : index + 2] = [(merged[index][0], merged[index + 1][1])]
    return merged
