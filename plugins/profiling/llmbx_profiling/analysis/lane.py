"""One device's figures: every step's unions, its kernels, collectives and gaps. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from heapq import nlargest
from operator import sub

from llmbx.model import Value

from .activity import COMMUNICATION, COMPUTE, Lane, Spans
from .intervals import Overlap, Union
from .windows import Window


class Figures(Value, frozen=True):
    """One window's nanoseconds, by union."""

    duration: int
    busy: int
    compute: int
    communication: int
    overlapped: int


class Calls(Value, frozen=True):
    """All calls of one kernel inside the windows: how many, their sum, the longest, what compute hid of them (ns)."""

    calls: int
    total: int
    longest: int
    overlapped: int = 0


class Measured(Value, frozen=True):
    """What one lane shows: figures by window, calls by name, the longest gaps as (window, offset, length), and, by
    window and name, the lengths of communication kernels in the order of their starts. Nanoseconds throughout."""

    kernels: int
    figures: tuple[Figures, ...]
    compute: dict[str, Calls]
    communication: dict[str, Calls]
    gaps: tuple[tuple[int, int, int], ...]
    lengths: dict[tuple[int, str], list[int]]


class _Slice(Value, frozen=True):
    """The spans that start in one window, in the order of their starts; `first` is the place of the first of them."""

    place: int
    first: int
    starts: Sequence[int]
    ends: Sequence[int]
    names: Sequence[int]


class _Unions:
    """What a lane computed, what it communicated and how much of that ran under compute, and all it did."""

    __slots__ = ("busy", "communication", "compute", "overlap")

    def __init__(self, lane: Lane) -> None:
        for spans in lane.kinds:
            spans.order()
        self.compute, self.communication, other = (Union(spans.starts, spans.ends) for spans in lane.kinds)
        self.overlap = Overlap(self.communication, self.compute)
        self.busy = Union.of((self.compute, self.communication, other))


def extent(lane: Lane) -> tuple[int, int]:
    """The first start and the last end of anything on the device."""
    filled = [spans for spans in lane.kinds if len(spans)]
    return min(min(spans.starts) for spans in filled), max(max(spans.ends) for spans in filled)


def measure(lane: Lane, windows: Sequence[Window], names: dict[int, str], gaps: int) -> Measured:
    """The figures of `lane` in its windows, with its `gaps` longest gaps. A kernel belongs to where it starts."""
    kinds, merged = lane.kinds, _Unions(lane)
    collectives = _slices(kinds[COMMUNICATION], windows)
    hidden = _hidden(kinds[COMMUNICATION], merged)
    return Measured(
        kernels=len(kinds[COMPUTE]) + len(kinds[COMMUNICATION]),
        figures=tuple(_figures(window, merged) for window in windows),
        compute=_named(_calls(_slices(kinds[COMPUTE], windows)), names),
        communication=_named(_with_hidden(collectives, hidden), names),
        gaps=_gaps(merged.busy, windows, gaps),
        lengths=_lengths(collectives, names),
    )


def _figures(window: Window, merged: _Unions) -> Figures:
    span = (window.start, window.end)
    return Figures(
        duration=window.end - window.start,
        busy=merged.busy.within(*span),
        compute=merged.compute.within(*span),
        communication=merged.communication.within(*span),
        overlapped=merged.overlap.within(*span),
    )


def _slices(spans: Spans, windows: Sequence[Window]) -> list[_Slice]:
    found = []
    for place, window in enumerate(windows):
        part = slice(bisect_left(spans.starts, window.start), bisect_left(spans.starts, window.end))
        found.append(
            _Slice(
                place=place, first=part.start, starts=spans.starts[part], ends=spans.ends[part], names=spans.names[part]
            )
        )
    return found


def _calls(slices: Sequence[_Slice]) -> dict[int, Calls]:
    lengths: dict[int, list[int]] = {}
    add_length: dict[int, Callable[[int], None]] = {}
    for piece in slices:
        for name, length in zip(piece.names, map(sub, piece.ends, piece.starts), strict=True):
            try:
                add_length[name](length)
            except KeyError:
                lengths[name] = [length]
                add_length[name] = lengths[name].append
    return {name: Calls(calls=len(all_), total=sum(all_), longest=max(all_)) for name, all_ in lengths.items()}


def _hidden(spans: Spans, merged: _Unions) -> Sequence[int]:
    """How much compute ran beside each communication kernel."""
    if array("q", merged.communication.starts) == spans.starts:
        return merged.overlap.each
    return merged.compute.within_each(spans.starts, spans.ends)


def _with_hidden(slices: Sequence[_Slice], hidden: Sequence[int]) -> dict[int, Calls]:
    calls = _calls(slices)
    sums = dict.fromkeys(calls, 0)
    for piece in slices:
        for name, overlap in zip(piece.names, hidden[piece.first : piece.first + len(piece.names)], strict=True):
            sums[name] += overlap
    return {name: figures.replace(overlapped=sums[name]) for name, figures in calls.items()}


def _named(calls: dict[int, Calls], names: dict[int, str]) -> dict[str, Calls]:
    found: dict[str, Calls] = {}
    for name, figures in calls.items():
        text = names.get(name, f"kernel {name}")
        found[text] = add(found[text], figures) if text in found else figures
    return found


def add(one: Calls, other: Calls) -> Calls:
    """Two sets of calls as one."""
    return Calls(
        calls=one.calls + other.calls,
        total=one.total + other.total,
        longest=max(one.longest, other.longest),
        overlapped=one.overlapped + other.overlapped,
    )


def _gaps(busy: Union, windows: Sequence[Window], count: int) -> tuple[tuple[int, int, int], ...]:
    found = [
        (place, start - window.start, end - start)
        for place, window in enumerate(windows)
        for start, end in busy.longest_gaps(window.start, window.end, count)
    ]
    return tuple(nlargest(count, found, key=lambda gap: gap[2]))


def _lengths(slices: Sequence[_Slice], names: dict[int, str]) -> dict[tuple[int, str], list[int]]:
    found: dict[tuple[int, str], list[int]] = {}
    for piece in slices:
        for name, length in zip(piece.names, map(sub, piece.ends, piece.starts), strict=True):
            found.setdefault((piece.place, names.get(name, f"kernel {name}")), []).append(length)
    return found
