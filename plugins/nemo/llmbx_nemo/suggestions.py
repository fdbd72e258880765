"""Numbers for the `fix` of a `Finding`."""

from __future__ import annotations


def multiples_around(value: int, unit: int) -> list[int]:
    """The multiples of `unit` just below and above `value`, without 0."""
    below = value // unit * unit
    return [count for count in (below, below + unit) if count > 0]


def divisors(number: int) -> list[int]:
    """The divisors of `number`, ascending."""
    return [count for count in range(1, number + 1) if number % count == 0]
