"""The interval of a log: the number of steps from one line to the next, and the steps that a printed mean covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ..model import Step

SHARE = 0.8
"""Least share of the lines that belong to a multiple of the interval; the first may be another step."""

ROUND = 5
"""An interval that two lines alone show is a multiple of this number; others may be lines that were lost."""


def log_interval(numbers: Sequence[int]) -> int:
    """The interval of a log with steps of these numbers, in order; 1 if it has the line of every step.

    A framework prints the steps whose number, counted from 0 or 1, is a multiple of the interval.
    """
    gaps = Counter(after - before for before, after in pairwise(numbers) if after > before)
    for gap, _ in gaps.most_common(3):
        if gap == 1 or _fits(gap, numbers):
            return gap
    return 1


def _fits(gap: int, numbers: Sequence[int]) -> bool:
    if len(numbers) < 3 and (gap % ROUND or numbers[0] % gap not in (0, gap - 1)):
        return False
    rest, count = Counter(number % gap for number in numbers[1:]).most_common(1)[0]
    return rest in (0, gap - 1) and count >= SHARE * (len(numbers) - 1)


def with_covers(steps: Sequence[Step], begun: int) -> list[Step]:
    """The steps of a log whose lines have means since the line before, each with the number of steps that it covers.

    `begun` is the number of the last step before the training began. After a lost line, a mean covers one interval.
    """
    every = log_interval([step.number for step in steps])
    if every == 1:
        return [*steps]
    before = [min(begun, steps[0].number - 1), *(step.number for step in steps)]
    return [step.replace(covers=min(every, step.number - last)) for last, step in zip(before, steps, strict=False)]


def begun_after(loaded: Iterable[int], first: int | None, steps: Sequence[Step]) -> int:
    """The last step before the training began: that of a loaded checkpoint, else the one before the first."""
    earlier = [number for number in loaded if steps and number < steps[0].number]
    return max(earlier, default=(first or 0) - 1)
