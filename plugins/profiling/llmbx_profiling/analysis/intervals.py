"""Interval arithmetic on whole nanoseconds: unions, what they cover of a window, and what they leave open. Pure.

An interval is [start, end). All loops over intervals run inside built-in functions, since a profile has millions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import accumulate, compress, repeat
from operator import gt, sub

_FEW = 500
"""Gaps that are looked at before the others, to know how long one must be to matter."""


class Union:
    """A union of intervals as disjoint, ascending segments that do not touch: segment i is `starts[i]` to `ends[i]`."""

    __slots__ = ("ends", "starts")

    def __init__(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """The union of the intervals (starts[i], ends[i]), in any order. None of them may be empty.

        Starts and ends are sorted apart: the coverage drops to nothing after the i-th end exactly where the next
        start lies beyond it, so the segments need no pairs.
        """
        firsts, lasts = sorted(starts), sorted(ends)
        gaps = list(map(gt, firsts[1:], lasts))
        self.starts: list[int] = firsts[:1]
        self.starts.extend(compress(firsts[1:], gaps))
        self.ends: list[int] = list(compress(lasts, gaps))
        self.ends += lasts[-1:]

    @classmethod
    def of(cls, unions: Iterable[Union]) -> Union:
        """The union of unions."""
        several = [union for union in unions if union.starts]
        if len(several) == 1:
            return several[0]
        starts: list[int] = []
        ends: list[int] = []
        for union in several:
            starts += union.starts
            ends += union.ends
        return cls(starts, ends)

    def within(self, start: int, end: int) -> int:
        """How much of [start, end) is covered."""
        low, high = bisect_right(self.ends, start), bisect_left(self.starts, end)
        if low >= high or end <= start:
            return 0
        whole = sum(self.ends[low:high]) - sum(self.starts[low:high])
        return whole - max(0, start - self.starts[low]) - max(0, self.ends[high - 1] - end)

    def within_each(self, starts: Sequence[int], ends: Sequence[int]) -> list[int]:
        """`within` of many intervals at once."""
        lows = map(bisect_right, repeat(self.ends), starts)
        highs = map(bisect_left, repeat(self.starts), ends)
        firsts, lasts = self.starts, self.ends
        return [
            sum(lasts[low:high])
            - sum(firsts[low:high])
            - (start - firsts[low] if start > firsts[low] else 0)
            - (lasts[high - 1] - end if lasts[high - 1] > end else 0)
            if low < high
            else 0
            for low, high, start, end in zip(lows, highs, starts, ends, strict=True)
        ]

    def longest_gaps(self, start: int, end: int, count: int) -> list[tuple[int, int]]:
        """The `count` longest uncovered intervals inside [start, end), longest first."""
        low, high = bisect_right(self.ends, start), bisect_left(self.starts, end)
        firsts, lasts = [start, *self.ends[low:high]], [*self.starts[low:high], end]
        lengths = list(map(sub, lasts, firsts))
        # The longest of a few are no longer than the longest of all: what is shorter need not be looked at.
        some = nlargest(count, lengths[:: max(1, len(lengths) // _FEW)])
        least = max(1, some[-1]) if len(some) == count else 1
        enough = list(map(least.__le__, lengths))
        found = zip(compress(firsts, enough), compress(lasts, enough), strict=True)
        return nlargest(count, found, key=lambda gap: gap[1] - gap[0])


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
