"""What the GPUs of a profile did, apart by process, device and kind."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from . import kernels
from .database import PROCESS

_NO_KERNELS = (kernels.COPY, kernels.SET, kernels.GRAPH)


class Spans:
    """Intervals in nanoseconds of the profile's own clock."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: Sequence[int] = array("q")
        self.ends: Sequence[int] = array("q")

    def extend(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Add many at once."""
        self.starts += array("q", starts)  # type: ignore[operator]
        self.ends += array("q", ends)  # type: ignore[operator]


class Tally:
    """Calls of one kernel: how many, the sum of their lengths, and the longest (ns)."""

    __slots__ = ("calls", "longest", "total")

    def __init__(self) -> None:
        self.calls = self.total = self.longest = 0

    def add(self, lengths: Sequence[int]) -> None:
        """Count these calls, too."""
        if lengths:
            self.calls += len(lengths)
            self.total += sum(lengths)
            self.longest = max(self.longest, max(lengths))


class Lane:
    """One device as one process used it: what it computed, what else it did (copies), and its communication by name."""

    __slots__ = ("communication", "compute", "device", "other", "process", "tallies")

    def __init__(self, process: int, device: int) -> None:
        self.process = process
        self.device = device
        self.compute = Spans()
        self.other = Spans()
        self.communication: dict[int, Spans] = {}
        self.tallies: dict[int, Tally] = {}

    @property
    def spans(self) -> list[Spans]:
        """Everything the device did."""
        return [found for found in (self.compute, self.other, *self.communication.values()) if len(found.starts)]


class Shelf:
    """Every lane by its key, and where on it the kernels of a name belong (ids below zero are llmbx's own names)."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = {}
        self.names: dict[int, str] = {}

    def lane(self, key: int) -> Lane:
        """The lane of that key, made when it is new."""
        if key not in self.lanes:
            self.lanes[key] = Lane(key & PROCESS, key & ~PROCESS)
        return self.lanes[key]

    def spans(self, lane: Lane, name: int) -> Spans:
        """Where on its lane a kernel of this name belongs."""
        text = self.names.get(name, "")
        if kernels.is_communication(text):
            return lane.communication.setdefault(name, Spans())
        return lane.other if text in _NO_KERNELS else lane.compute

    def is_kernel(self, name: int) -> bool:
        """Whether the id is a kernel's: copies, memory sets and whole graphs are none."""
        return self.names.get(name) not in _NO_KERNELS
