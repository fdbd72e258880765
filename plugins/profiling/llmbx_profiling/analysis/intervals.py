"""Interval arithmetic on whole nanoseconds: unions, what they cover of a window, and what they leave open. Pure.

An interval is [start, end). Loops over intervals run inside numpy, since a profile has millions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int64]]
"""Nanoseconds, one dimension."""


class Union:
    """A union of intervals as disjoint, ascending segments that do not touch: segment i is `starts[i]` to `ends[i]`.

    `below[i]` is the length of all segments before segment i.
    """

    __slots__ = ("below", "ends", "starts")

    def __init__(self, starts: Sequence[int] | Numbers, ends: Sequence[int] | Numbers) -> None:
        """The union of the intervals (starts[i], ends[i]), in any order. None of them may be empty.

        Starts and ends are sorted apart: the coverage drops to nothing after the i-th end exactly where the next
        start lies beyond it, so the segments need no pairs.
        """
        firsts, lasts = np.sort(numbers(starts), kind="stable"), np.sort(numbers(ends), kind="stable")
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
        found: list[int] = (self._before(numbers(ends)) - self._before(numbers(starts))).tolist()
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
    """How much of one union another one covers, segment by segment: `each[i]` of the one's segment i."""

    def __init__(self, one: Union, other: Union) -> None:
        self._one, self._other = one, other
        self.each = other.within_each(one.starts, one.ends)
        self._below = _running(numbers(self.each))

    def within(self, start: int, end: int) -> int:
        """How much of [start, end) both cover."""
        return self._before(end) - self._before(start) if end > start else 0

    def _before(self, time: int) -> int:
        place = int(np.searchsorted(self._one.starts, time, "right"))
        if not place:
            return 0
        return int(self._below[place]) - self._other.within(time, int(self._one.ends[place - 1]))


def numbers(values: Sequence[int] | Numbers) -> Numbers:
    """The values as 64-bit numbers."""
    return np.asarray(values, np.int64)


def _running(lengths: Numbers) -> Numbers:
    """Sums of all lengths before each, and of all: one member more."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
