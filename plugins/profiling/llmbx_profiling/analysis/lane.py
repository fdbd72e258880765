"""One device's figures: every step's unions, its kernels, collectives and gaps. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from heapq import nlargest
from operator import sub

from llmbx.model import Value

from .intervals import Overlap, Union, numbers
from .lanes import Lane, Shelf, Spans
from .windows import Window


class Figures(Value, frozen=True):
    """One window's nanoseconds, by union."""

    duration: int
    busy: int
    compute: int
    communication: int
    overlapped: int


class Calls(Value, frozen=True):
    """All calls of one kernel: how many, their sum, the longest, and what compute hid of them (ns)."""

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


class _Unions:
    """What a lane computed, what it communicated and how much of that ran under compute, and all it did."""

    __slots__ = ("busy", "communication", "compute", "overlap")

    def __init__(self, lane: Lane) -> None:
        self.compute = Union(lane.compute.starts, lane.compute.ends)
        self.communication = Union.of(Union(s.starts, s.ends) for s in lane.communication.values())
        self.overlap = Overlap(self.communication, self.compute)
        other = Union(lane.other.starts, lane.other.ends)
        self.busy = Union.of((self.compute, self.communication, other))


def extent(lane: Lane) -> tuple[int, int]:
    """The first start and the last end of anything on the device."""
    firsts = [int(numbers(spans.starts).min()) for spans in lane.spans]
    lasts = [int(numbers(spans.ends).max()) for spans in lane.spans]
    return min(firsts), max(lasts)


def measure(lane: Lane, windows: Sequence[Window], shelf: Shelf, gaps: int) -> Measured:
    """The figures of `lane` in its windows, with its `gaps` longest gaps; its kernels over the whole capture."""
    unions = _Unions(lane)
    return Measured(
        kernels=sum(tally.calls for name, tally in lane.tallies.items() if shelf.is_kernel(name)),
        figures=tuple(_figures(window, unions) for window in windows),
        compute=_compute(lane, shelf),
        communication=_communication(lane, shelf.names, unions),
        gaps=_gaps(unions.busy, windows, gaps),
        lengths=_lengths(lane, windows, shelf.names),
    )


def _figures(window: Window, unions: _Unions) -> Figures:
    span = (window.start, window.end)
    return Figures(
        duration=window.end - window.start,
        busy=unions.busy.within(*span),
        compute=unions.compute.within(*span),
        communication=unions.communication.within(*span),
        overlapped=unions.overlap.within(*span),
    )


def _compute(lane: Lane, shelf: Shelf) -> dict[str, Calls]:
    found: dict[str, Calls] = {}
    for name, tally in lane.tallies.items():
        text = shelf.names.get(name, f"kernel {name}")
        if name not in lane.communication and shelf.is_kernel(name):
            calls = Calls(calls=tally.calls, total=tally.total, longest=tally.longest)
            found[text] = add(found[text], calls) if text in found else calls
    return found


def _communication(lane: Lane, names: dict[int, str], unions: _Unions) -> dict[str, Calls]:
    found: dict[str, Calls] = {}
    hidden = _hidden(lane, unions)
    for name in lane.communication:
        tally = lane.tallies[name]
        calls = Calls(calls=tally.calls, total=tally.total, longest=tally.longest, overlapped=hidden[name])
        text = names[name]
        found[text] = add(found[text], calls) if text in found else calls
    return found


def _hidden(lane: Lane, unions: _Unions) -> dict[int, int]:
    """How much of each name's communication compute ran beside."""
    segments = unions.communication.starts
    if sum(len(spans.starts) for spans in lane.communication.values()) == len(segments):
        # No two calls touch, so the segments are the calls.
        by_start = dict(zip(map(int, segments), unions.overlap.each, strict=True))
        return {name: sum(map(by_start.__getitem__, spans.starts)) for name, spans in lane.communication.items()}
    return {
        name: sum(unions.compute.within_each(spans.starts, spans.ends)) for name, spans in lane.communication.items()
    }


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


def _lengths(lane: Lane, windows: Sequence[Window], names: dict[int, str]) -> dict[tuple[int, str], list[int]]:
    found = {}
    for text, (starts, ends) in _by_text(lane, names).items():
        for place, window in enumerate(windows):
            low, high = bisect_left(starts, window.start), bisect_left(starts, window.end)
            if low < high:
                found[place, text] = list(map(sub, ends[low:high], starts[low:high]))
    return found


def _by_text(lane: Lane, names: dict[int, str]) -> dict[str, tuple[Sequence[int], Sequence[int]]]:
    """Starts and ends of communication kernels by name (several ids may have one), in the order of their starts."""
    same: dict[str, list[Spans]] = {}
    for name, spans in lane.communication.items():
        same.setdefault(names[name], []).append(spans)
    found: dict[str, tuple[Sequence[int], Sequence[int]]] = {}
    for text, several in same.items():
        first = several[0]
        if len(several) == 1 and array("q", sorted(first.starts)) == first.starts:
            found[text] = first.starts, first.ends
        else:
            pairs = sorted(pair for spans in several for pair in zip(spans.starts, spans.ends, strict=True))
            found[text] = [start for start, _ in pairs], [end for _, end in pairs]
    return found
