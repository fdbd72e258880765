"""The arithmetic of `intervals` and `sorting` with numpy: a third of the time, and the same results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Any

import numpy as np

from .lanes import Lane, Shelf, Tally

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Union:
    """A union of intervals, as `intervals.Union` is; `below[i]` is the length of all segments before segment i."""

    __slots__ = ("below", "ends", "starts")

    def __init__(self, starts: Sequence[int] | Numbers, ends: Sequence[int] | Numbers) -> None:
        firsts, lasts = np.sort(_numbers(starts), kind="stable"), np.sort(_numbers(ends), kind="stable")
        gaps = firsts[1:] > lasts[:-1]
        self.starts: Numbers = np.concatenate((firsts[:1], firsts[1:][gaps]))
        self.ends: Numbers = np.concatenate((lasts[:-1][gaps], lasts[-1:]))
        self.below = _running(self.ends - self.starts)

    @classmethod
    def of(cls, unions: Iterable[Union]) -> Union:
        """The union of unions."""
        several = [union for union in unions if len(union.starts)]
        if len(several) == 1:
            return several[0]
        if not several:
            return cls((), ())
        return cls(np.concatenate([u.starts for u in several]), np.concatenate([u.ends for u in several]))

    def within(self, start: int, end: int) -> int:
        """How much of [start, end) is covered."""
        return self.within_each((start,), (end,))[0] if end > start else 0

    def within_each(self, starts: Sequence[int] | Numbers, ends: Sequence[int] | Numbers) -> list[int]:
        """`within` of many intervals at once."""
        found: list[int] = (self._before(_numbers(ends)) - self._before(_numbers(starts))).tolist()
        return found

    def longest_gaps(self, start: int, end: int, count: int) -> list[tuple[int, int]]:
        """The `count` longest uncovered intervals inside [start, end), longest first."""
        low, high = np.searchsorted(self.ends, start, "right"), np.searchsorted(self.starts, end, "left")
        firsts = np.concatenate(((start,), self.ends[low:high]))
        lasts = np.concatenate((self.starts[low:high], (end,)))
        lengths = lasts - firsts
        least = max(1, np.partition(lengths, -count)[-count]) if count < len(lengths) else 1
        enough = lengths >= least
        found = zip(firsts[enough].tolist(), lasts[enough].tolist(), strict=True)
        return nlargest(count, found, key=lambda gap: gap[1] - gap[0])

    def _before(self, times: Numbers) -> Numbers:
        if not len(self.starts):
            return np.zeros(len(times), np.int64)
        places = np.searchsorted(self.starts, times, "right")
        beyond: Numbers = np.where(places > 0, np.maximum(0, self.ends[places - 1] - times), 0)
        return self.below[places] - beyond


class Overlap:
    """How much of one union another one covers, as `intervals.Overlap` says."""

    def __init__(self, one: Union, other: Union) -> None:
        self._one, self._other = one, other
        self.each = other.within_each(one.starts, one.ends)
        self._below = _running(_numbers(self.each))

    def within(self, start: int, end: int) -> int:
        """How much of [start, end) both cover."""
        return self._before(end) - self._before(start) if end > start else 0

    def _before(self, time: int) -> int:
        place = int(np.searchsorted(self._one.starts, time, "right"))
        if not place:
            return 0
        return int(self._below[place]) - self._other.within(time, int(self._one.ends[place - 1]))


class Sorter:
    """Sorts blocks of rows into lanes, as `sorting.Sorter` does, but only when all of them are there."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._parts: dict[int, list[Numbers]] = {}

    def add(self, starts: Sequence[int], ends: Sequence[int], keys: Sequence[int], names: Sequence[int]) -> None:
        """Add a block of rows: start, end, key of the lane, id of the name."""
        rows, lanes = np.array((starts, ends, names), np.int64), np.array(keys, np.int64)
        for key in np.unique(lanes).tolist():
            self._parts.setdefault(key, []).append(rows[:, lanes == key])

    def finish(self) -> None:
        """Put everything on its lane."""
        for key in list(self._parts):
            self._place(self._shelf.lane(key), np.concatenate(self._parts.pop(key), axis=1))

    def _place(self, lane: Lane, rows: Numbers) -> None:
        known, which = np.unique(rows[2], return_inverse=True)
        by_name = np.argsort(which, kind="stable")
        bounds = np.searchsorted(which[by_name], np.arange(len(known) + 1))
        bulk = np.ones(len(which), bool)
        for i, name in enumerate(known.tolist()):
            mine = by_name[bounds[i] : bounds[i + 1]]
            _tally(lane, name, rows[1][mine] - rows[0][mine])
            spans = self._shelf.spans(lane, name)
            if spans is not lane.compute:
                bulk[mine] = False
                spans.extend(rows[0][mine].tolist(), rows[1][mine].tolist())
        lane.compute.starts, lane.compute.ends = rows[0][bulk], rows[1][bulk]


def _tally(lane: Lane, name: int, lengths: Numbers) -> None:
    tally = lane.tallies.setdefault(name, Tally())
    tally.calls += len(lengths)
    tally.total += int(lengths.sum())
    tally.longest = max(tally.longest, int(lengths.max()))


def _numbers(values: Sequence[int] | Numbers) -> Numbers:
    return np.asarray(values, np.int64)


def _running(lengths: Numbers) -> Numbers:
    """Sums of all lengths before each, and of all: one member more."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
