"""Interval arithmetic on whole nanoseconds: unions, what they cover of a window, and what they leave open. Pure.

An interval is [start, end). All loops over intervals run inside built-in functions, since a profile has millions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import accumulate, compress, repeat
from operator import gt, sub


class Union:
    """A union of intervals as disjoint, ascending segments that do not touch, with what they add up to.

    `starts[i]`, `ends[i]` is segment i; `below[i]` the length of all segments before it (it has one member more).
    """

    __slots__ = ("below", "ends", "starts")

    def __init__(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """The union of the intervals (starts[i], ends[i]), in any order; empty intervals count for nothing.

        Starts and ends are sorted apart: the coverage drops to nothing after the i-th end exactly where the next
        start lies beyond it, so the segments need no pairs.
        """
        firsts, lasts = sorted(starts), sorted(ends)
        gaps = list(map(gt, firsts[1:], lasts))
        self.starts: list[int] = firsts[:1] + list(compress(firsts[1:], gaps))
        self.ends: list[int] = list(compress(lasts, gaps)) + lasts[-1:]
        lengths = list(map(sub, self.ends, self.starts))
        if 0 in lengths:
            self.starts, self.ends = list(compress(self.starts, lengths)), list(compress(self.ends, lengths))
            lengths = list(filter(None, lengths))
        self.below: list[int] = [0, *accumulate(lengths)]

    @classmethod
    def of(cls, unions: Iterable[Union]) -> Union:
        """The union of unions."""
        starts: list[int] = []
        ends: list[int] = []
        for union in unions:
            starts += union.starts
            ends += union.ends
        return cls(starts, ends)

    @property
    def length(self) -> int:
        """All that is covered."""
        return self.below[-1]

    def before(self, time: int) -> int:
        """How much is covered before `time`."""
        i = bisect_right(self.starts, time)
        return self.below[i] - max(0, self.ends[i - 1] - time) if i else 0

    def before_each(self, times: Sequence[int]) -> list[int]:
        """`before` of many times at once."""
        ends, below = self.ends, self.below
        places = map(bisect_right, repeat(self.starts), times)
        # The segment in front of a time counts whole (it is in `below[i]`) unless the time lies in it.
        return [
            below[i] - ends[i - 1] + time if i and ends[i - 1] > time else below[i]
            for i, time in zip(places, times, strict=True)
        ]

    def within(self, start: int, end: int) -> int:
        """How much of [start, end) is covered."""
        return self.before(end) - self.before(start) if end > start else 0

    def within_each(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """`within` of many intervals at once; none of them may end before it starts."""
        return list(map(sub, self.before_each(ends), self.before_each(starts)))

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """The uncovered intervals inside [start, end), ascending."""
        firsts, lasts = self._edges(start, end)
        return [(a, b) for a, b in zip(firsts, lasts, strict=True) if b > a]

    def longest_gaps(self, start: int, end: int, count: int) -> list[tuple[int, int]]:
        """The `count` longest of them (all where there are fewer, some more where lengths are equal), ascending."""
        firsts, lasts = self._edges(start, end)
        lengths = list(map(sub, lasts, firsts))
        least = max(1, min(nlargest(count, lengths))) if count < len(lengths) else 1
        return [(firsts[i], lasts[i]) for i, length in enumerate(lengths) if length >= least]

    def _edges(self, start: int, end: int) -> tuple[list[int], list[int]]:
        low, high = bisect_right(self.ends, start), bisect_left(self.starts, end)
        return [start, *self.ends[low:high]], [*self.starts[low:high], end]


class Overlap:
    """How much of one union another one covers, segment by segment: `each[i]` of the one's segment i."""

    __slots__ = ("_below", "_one", "_other", "each")

    def __init__(self, one: Union, other: Union) -> None:
        self._one, self._other = one, other
        self.each = other.within_each(one.starts, one.ends)
        self._below = [0, *accumulate(self.each)]

    def before(self, time: int) -> int:
        """How much both cover before `time`."""
        i = bisect_right(self._one.starts, time)
        return self._below[i] - self._other.within(time, self._one.ends[i - 1]) if i else 0

    def within(self, start: int, end: int) -> int:
        """How much of [start, end) both cover."""
        return self.before(end) - self.before(start) if end > start else 0
