"""From steps on the CPU to the time their work takes on a device.

A GPU runs behind the program: a step's kernels may start long after its range has ended. The device's time is therefore
cut where the first kernel starts that a step launched, so that each stretch belongs to exactly one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmbx.model import Value

from .activity import lane_expression
from .database import PROCESS, Database
from .ranges import StepRange

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_NEAR = 20_000_000
"""Nanoseconds after a step's start in which its first launch is looked for."""
_FAR = 2_000_000_000
"""The same for a step that launches nothing so soon."""
_FEW = 2_000
"""Launches after that one among which the first kernel is looked for."""


Edge = tuple[int, int]
"""A process or a lane, and a time."""


class Window(Value, frozen=True):
    """A step's stretch [start, end) on one device; `number` is None for a capture that is taken whole."""

    number: int | None
    start: int
    end: int


def windows(
    database: Database, steps: Sequence[StepRange], lanes: dict[int, tuple[int, int]]
) -> dict[int, list[Window]]:
    """Windows by lane, in order. `lanes` maps each lane's key to its first start and last end.

    Where launches were not recorded, the ranges themselves are the windows; where there are no ranges, the capture is.
    """
    first_kernels = _first_kernels(database, steps)
    found = {}
    for lane, (first, last) in lanes.items():
        mine = [step for step in steps if step.process == lane & PROCESS]
        if not mine and len({step.process for step in steps}) == 1:
            mine = list(steps)
        if mine:
            found[lane] = _cut(mine, {k: t for (key, k), t in first_kernels.items() if key == lane}, last)
        else:
            found[lane] = [Window(number=None, start=first, end=last)]
    return found


def _cut(steps: Sequence[StepRange], kernels: dict[int, int], last: int) -> list[Window]:
    """Windows from each step's first kernel to the next step's; a step without a successor ends with its work."""
    projected = bool(kernels)
    found = []
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        start = kernels.get(step.start, step.start)
        if after is not None and after.number == step.number + 1:
            end = kernels.get(after.start, after.start)
        else:
            end = kernels.get(step.end, max(last, step.end) if projected and after is None else step.end)
        if end > start:
            found.append(Window(number=step.number, start=start, end=end))
    return found


def _first_kernels(database: Database, steps: Sequence[StepRange]) -> dict[Edge, int]:
    """(lane, time on the CPU) -> start of the first kernel launched from then on, for the edges of all steps."""
    needed = {"start", "correlationId", "globalTid"}
    if not steps or not needed <= database.columns(_RUNTIME) or "correlationId" not in database.columns(_KERNEL):
        return {}
    launches = _first_launches(database, steps)
    if not launches:
        return {}
    kernels = _kernels_from(database, launches.values())
    found = {}
    for (process, time), number in launches.items():
        for lane, candidates in kernels.items():
            if lane & PROCESS in (process, 0):
                later = [start for other, start in candidates if number <= other < number + _FEW]
                if later:
                    found[lane, time] = min(later)
    return found


def _kernels_from(database: Database, launches: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
    """(launch, start) by lane of the kernels that come soon after these launches."""
    spans = _joined((number, number + _FEW) for number in launches)
    rows = database.rows(
        f"SELECT {lane_expression(database, _KERNEL)}, correlationId, start FROM {_KERNEL} "
        f"WHERE {_between('correlationId', spans)}"
    )
    kernels: dict[int, list[tuple[int, int]]] = {}
    for lane, number, start in rows:
        kernels.setdefault(lane, []).append((number, start))
    return kernels


def _first_launches(database: Database, steps: Sequence[StepRange]) -> dict[Edge, int]:
    """(process, time) -> number of the first CUDA call from then on; the numbers rise with time within a process."""
    starts = {(step.process, step.start) for step in steps}
    found = _calls_after(database, starts | {(step.process, step.end) for step in steps}, _NEAR)
    # A step may load data for long before it launches anything; after the last one nothing need be launched at all.
    late = starts - found.keys()
    return {**found, **(_calls_after(database, late, _FAR) if late else {})}


def _calls_after(database: Database, edges: Iterable[Edge], reach: int) -> dict[Edge, int]:
    spans = _joined((time, time + reach) for _, time in edges)
    rows = database.rows(
        f"SELECT globalTid & {PROCESS}, start, correlationId FROM {_RUNTIME} WHERE {_between('start', spans)}"
    )
    calls: dict[int, list[tuple[int, int]]] = {}
    for process, start, number in rows:
        calls.setdefault(process, []).append((start, number))
    found = {}
    for process, time in edges:
        near = [number for start, number in calls.get(process, ()) if time <= start < time + reach]
        if near:
            found[process, time] = min(near)
    return found


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping spans made one: SQLite tests every row against every span."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _between(column: str, spans: Sequence[tuple[int, int]]) -> str:
    return " OR ".join(f"{column} BETWEEN {start} AND {end}" for start, end in spans)
