"""GPU activity of a profile, grouped into lanes: one per process and device."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from . import kernels
from .database import PROCESS

_NO_KERNELS = (kernels.COPY, kernels.SET, kernels.GRAPH)


class Spans:
    """Intervals in nanoseconds of the profile's clock."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: Sequence[int] = array("q")
        self.ends: Sequence[int] = array("q")

    def extend(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Append intervals."""
        self.starts += array("q", starts)  # type: ignore[operator]
        self.ends += array("q", ends)  # type: ignore[operator]


class CallStats:
    """Calls of one kernel: number, total time and longest call (ns)."""

    __slots__ = ("calls", "longest", "total")

    def __init__(self) -> None:
        self.calls = self.total = self.longest = 0

    def add(self, lengths: Sequence[int]) -> None:
        """Add calls by their durations."""
        if lengths:
            self.calls += len(lengths)
            self.total += sum(lengths)
            self.longest = max(self.longest, max(lengths))


class Lane:
    """One device as used by one process: computation, other activity (copies), and communication by kernel name."""

    __slots__ = ("call_stats", "communication", "compute", "device", "other", "process")

    def __init__(self, process: int, device: int) -> None:
        self.process = process
        self.device = device
        self.compute = Spans()
        self.other = Spans()
        self.communication: dict[int, Spans] = {}
        self.call_stats: dict[int, CallStats] = {}

    @property
    def spans(self) -> list[Spans]:
        """All non-empty groups of intervals of the device."""
        return [spans for spans in (self.compute, self.other, *self.communication.values()) if len(spans.starts)]


class LaneSet:
    """All lanes by key, and kernel names by id; negative ids are names defined by llmbx."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = {}
        self.names: dict[int, str] = {}

    def lane(self, key: int) -> Lane:
        """Return the lane with this key, creating it if it does not exist."""
        if key not in self.lanes:
            self.lanes[key] = Lane(key & PROCESS, key & ~PROCESS)
        return self.lanes[key]

    def spans(self, lane: Lane, name: int) -> Spans:
        """Return the intervals of the lane that a kernel of this name belongs to."""
        text = self.names.get(name, "")
        if kernels.is_communication(text):
            return lane.communication.setdefault(name, Spans())
        return lane.other if text in _NO_KERNELS else lane.compute

    def is_kernel(self, name: int) -> bool:
        """Whether the id is the name of a kernel, not of a copy, memory set or whole graph."""
        return self.names.get(name) not in _NO_KERNELS
