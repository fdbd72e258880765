"""Metrics of one device: times of each step, kernels, collectives and idle gaps. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from heapq import nlargest
from operator import sub

from llmbx.api import Value

from .intervals import Overlap, Union, numbers
from .lanes import Lane, LaneSet, Spans
from .windows import Window


class WindowTimes(Value, frozen=True):
    """Times of one window in nanoseconds, as lengths of unions."""

    duration: int
    busy: int
    compute: int
    communication: int
    overlapped: int


class Calls(Value, frozen=True):
    """All calls of one kernel: number, total time, longest call, and time overlapped by computation (ns)."""

    calls: int
    total: int
    longest: int
    overlapped: int = 0


class LaneMetrics(Value, frozen=True):
    """Metrics of one lane, in nanoseconds.

    `times` has one entry per window. `compute` and `communication` have calls by kernel name. `gaps` has the longest
    gaps as (window, offset, length). `lengths` has the durations of communication kernels by window and name, in order
    of their starts.
    """

    kernels: int
    times: tuple[WindowTimes, ...]
    compute: dict[str, Calls]
    communication: dict[str, Calls]
    gaps: tuple[tuple[int, int, int], ...]
    lengths: dict[tuple[int, str], list[int]]


class _Unions:
    """Unions of a lane's computation, communication, their overlap, and all activity."""

    __slots__ = ("busy", "communication", "compute", "overlap")

    def __init__(self, lane: Lane) -> None:
        self.compute = Union(lane.compute.starts, lane.compute.ends)
        self.communication = Union.of(Union(s.starts, s.ends) for s in lane.communication.values())
        self.overlap = Overlap(self.communication, self.compute)
        other = Union(lane.other.starts, lane.other.ends)
        self.busy = Union.of((self.compute, self.communication, other))


def extent(lane: Lane) -> tuple[int, int]:
    """Return the first start and the last end of all activity on the device."""
    firsts = [int(numbers(spans.starts).min()) for spans in lane.spans]
    lasts = [int(numbers(spans.ends).max()) for spans in lane.spans]
    return min(firsts), max(lasts)


def measure(lane: Lane, windows: Sequence[Window], lane_set: LaneSet, gaps: int) -> LaneMetrics:
    """Return the metrics of `lane`: times per window, the `gaps` longest gaps, and kernels over the whole capture."""
    unions = _Unions(lane)
    return LaneMetrics(
        kernels=sum(stats.calls for name, stats in lane.call_stats.items() if lane_set.is_kernel(name)),
        times=tuple(_window_times(window, unions) for window in windows),
        compute=_compute(lane, lane_set),
        communication=_communication(lane, lane_set.names, unions),
        gaps=_gaps(unions.busy, windows, gaps),
        lengths=_lengths(lane, windows, lane_set.names),
    )


def _window_times(window: Window, unions: _Unions) -> WindowTimes:
    span = (window.start, window.end)
    return WindowTimes(
        duration=window.end - window.start,
        busy=unions.busy.within(*span),
        compute=unions.compute.within(*span),
        communication=unions.communication.within(*span),
        overlapped=unions.overlap.within(*span),
    )


def _compute(lane: Lane, lane_set: LaneSet) -> dict[str, Calls]:
    kernels: dict[str, Calls] = {}
    for name, stats in lane.call_stats.items():
        text = lane_set.names.get(name, f"kernel {name}")
        if name not in lane.communication and lane_set.is_kernel(name):
            calls = Calls(calls=stats.calls, total=stats.total, longest=stats.longest)
            kernels[text] = add(kernels[text], calls) if text in kernels else calls
    return kernels


def _communication(lane: Lane, names: dict[int, str], unions: _Unions) -> dict[str, Calls]:
    kernels: dict[str, Calls] = {}
    overlapped = _overlapped(lane, unions)
    for name in lane.communication:
        stats = lane.call_stats[name]
        calls = Calls(calls=stats.calls, total=stats.total, longest=stats.longest, overlapped=overlapped[name])
        text = names[name]
        kernels[text] = add(kernels[text], calls) if text in kernels else calls
    return kernels


def _overlapped(lane: Lane, unions: _Unions) -> dict[int, int]:
    """Return the time of each communication kernel that is overlapped by computation."""
    segments = unions.communication.starts
    if sum(len(spans.starts) for spans in lane.communication.values()) == len(segments):
        # No two calls overlap or touch, so each segment is one call.
        by_start = dict(zip(map(int, segments), unions.overlap.each, strict=True))
        return {name: sum(map(by_start.__getitem__, spans.starts)) for name, spans in lane.communication.items()}
    return {
        name: sum(unions.compute.within_each(spans.starts, spans.ends)) for name, spans in lane.communication.items()
    }


def add(one: Calls, other: Calls) -> Calls:
    """Return the sum of two sets of calls."""
    return Calls(
        calls=one.calls + other.calls,
        total=one.total + other.total,
        longest=max(one.longest, other.longest),
        overlapped=one.overlapped + other.overlapped,
    )


def _gaps(busy: Union, windows: Sequence[Window], count: int) -> tuple[tuple[int, int, int], ...]:
    gaps = [
        (index, start - window.start, end - start)
        for index, window in enumerate(windows)
        for start, end in busy.longest_gaps(window.start, window.end, count)
    ]
    return tuple(nlargest(count, gaps, key=lambda gap: gap[2]))


def _lengths(lane: Lane, windows: Sequence[Window], names: dict[int, str]) -> dict[tuple[int, str], list[int]]:
    lengths = {}
    for text, (starts, ends) in _by_text(lane, names).items():
        for index, window in enumerate(windows):
            low, high = bisect_left(starts, window.start), bisect_left(starts, window.end)
            if low < high:
                lengths[index, text] = list(map(sub, ends[low:high], starts[low:high]))
    return lengths


def _by_text(lane: Lane, names: dict[int, str]) -> dict[str, tuple[Sequence[int], Sequence[int]]]:
    """Return starts and ends of communication kernels by name, sorted by start; several ids may have the same name."""
    same: dict[str, list[Spans]] = {}
    for name, spans in lane.communication.items():
        same.setdefault(names[name], []).append(spans)
    by_text: dict[str, tuple[Sequence[int], Sequence[int]]] = {}
    for text, several in same.items():
        first = several[0]
        if len(several) == 1 and array("q", sorted(first.starts)) == first.starts:
            by_text[text] = first.starts, first.ends
        else:
            pairs = sorted(pair for spans in several for pair in zip(spans.starts, spans.ends, strict=True))
            by_text[text] = [start for start, _ in pairs], [end for _, end in pairs]
    return by_text
