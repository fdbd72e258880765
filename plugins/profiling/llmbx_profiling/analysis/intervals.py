"""Interval arithmetic on integer nanoseconds: unions, overlaps and gaps. Pure.

An interval is [start, end). Loops over intervals run in numpy, since a profile has millions of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.int64]]
"""One-dimensional array of nanoseconds."""


class Union:
    """A union of intervals as disjoint, sorted, non-adjacent segments: segment i is [`starts[i]`, `ends[i]`).

    `below[i]` is the total length of all segments before segment i.
    """

    __slots__ = ("below", "ends", "starts")

    def __init__(self, starts: Sequence[int] | Numbers, ends: Sequence[int] | Numbers) -> None:
        """Compute the union of the intervals [starts[i], ends[i]), in any order. No interval may be empty.

        Starts and ends can be sorted independently: there is a gap after the i-th end exactly if the next start is
        greater than it.
        """
        firsts, lasts = np.sort(numbers(starts), kind="stable"), np.sort(numbers(ends), kind="stable")
        gaps = firsts[1:] > lasts[:-1]
        self.starts: Numbers = np.concatenate((firsts[:1], firsts[1:][gaps]))
        self.ends: Numbers = np.concatenate((lasts[:-1][gaps], lasts[-1:]))
        self.below = _running(self.ends - self.starts)

    @classmethod
    def of(cls, unions: Iterable[Union]) -> Union:
        """Return the union of several unions."""
        several = [union for union in unions if len(union.starts)]
        if len(several) == 1:
            return several[0]
        if not several:
            return cls((), ())
        return cls(np.concatenate([u.starts for u in several]), np.concatenate([u.ends for u in several]))

    def within(self, start: int, end: int) -> int:
        """Return the covered length of [start, end)."""
        return self.within_each((start,), (end,))[0] if end > start else 0

    def within_each(self, starts: Sequence[int] | Numbers, ends: Sequence[int] | Numbers) -> list[int]:
        """Return `within` for many intervals."""
        lengths: list[int] = (self._before(numbers(ends)) - self._before(numbers(starts))).tolist()
        return lengths

    def longest_gaps(self, start: int, end: int, count: int) -> list[tuple[int, int]]:
        """Return the `count` longest uncovered intervals in [start, end), longest first."""
        low, high = np.searchsorted(self.ends, start, "right"), np.searchsorted(self.starts, end, "left")
        firsts = np.concatenate(((start,), self.ends[low:high]))
        lasts = np.concatenate((self.starts[low:high], (end,)))
        lengths = lasts - firsts
        least = max(1, np.partition(lengths, -count)[-count]) if count < len(lengths) else 1
        enough = lengths >= least
        gaps = zip(firsts[enough].tolist(), lasts[enough].tolist(), strict=True)
        return nlargest(count, gaps, key=lambda gap: gap[1] - gap[0])

    def _before(self, times: Numbers) -> Numbers:
        if not len(self.starts):
            return np.zeros(len(times), np.int64)
        indices = np.searchsorted(self.starts, times, "right")
        beyond: Numbers = np.where(indices > 0, np.maximum(0, self.ends[indices - 1] - times), 0)
        return self.below[indices] - beyond


class Overlap:
    """The overlap of two unions; `each[i]` is the length of segment i of `one` that `other` covers."""

    def __init__(self, one: Union, other: Union) -> None:
        self._one, self._other = one, other
        self.each = other.within_each(one.starts, one.ends)
        self._below = _running(numbers(self.each))

    def within(self, start: int, end: int) -> int:
        """Return the length of [start, end) that both unions cover."""
        return self._before(end) - self._before(start) if end > start else 0

    def _before(self, time: int) -> int:
        index = int(np.searchsorted(self._one.starts, time, "right"))
        if not index:
            return 0
        return int(self._below[index]) - self._other.within(time, int(self._one.ends[index - 1]))


def numbers(values: Sequence[int] | Numbers) -> Numbers:
    """Convert the values to an array of 64-bit integers."""
    return np.asarray(values, np.int64)


def _running(lengths: Numbers) -> Numbers:
    """Return the cumulative sums, starting with 0: one element more than `lengths`."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
