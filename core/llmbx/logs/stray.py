"""Tell a damaged step number from a restart: both make the numbers of a log fall.

After a restart the numbers go on from the one that they fell to. After a line with one wrong digit they go on from the
lines before it. The numbers before must be evenly spaced, so that a log in another order is not mistaken for damage.
"""

from __future__ import annotations

from collections.abc import Sequence

FAR = 4
"""A number is too large only if it skips this many lines: a shorter jump may be lines that were lost."""

KEPT = 4
"""Number of step numbers before the fall that the functions need."""


def is_too_small(before: Sequence[int], fell_to: int, after: int) -> bool:
    """Whether `fell_to` is a damaged number: the next one, `after`, continues the numbers `before` it.

    `before` are the last numbers before the fall, in the order of the log.
    """
    distance = _distance(before)
    return distance > 0 and after != fell_to + distance and after in _next_two(before[-1], distance)


def is_too_large(before: Sequence[int], fell_to: int) -> bool:
    """Whether the last number of `before` is a damaged one: `fell_to` continues the numbers before it."""
    regular = before[:-1]
    distance = _distance(regular)
    return distance > 0 and before[-1] - regular[-1] >= FAR * distance and fell_to in _next_two(regular[-1], distance)


def _distance(numbers: Sequence[int]) -> int:
    """The distance of the last three numbers; 0 if there are fewer, or if they are not evenly spaced."""
    if len(numbers) < KEPT - 1:
        return 0
    first, second, third = numbers[-3:]
    return third - second if third - second == second - first else 0


def _next_two(number: int, distance: int) -> tuple[int, int]:
    """The numbers that can follow: that of the damaged line, if another process printed it too, and the one after."""
    return number + distance, number + 2 * distance
