"""Numbers and phrases for the `fix` of a `Finding`."""

from __future__ import annotations

from collections.abc import Iterable


def multiples_around(value: int, unit: int) -> list[int]:
    """The multiples of `unit` just below and above `value`, without 0."""
    below = value // unit * unit
    return [count for count in (below, below + unit) if count > 0]


def divisors(number: int) -> list[int]:
    """The divisors of `number`, ascending."""
    return [count for count in range(1, number + 1) if number % count == 0]


def either(options: Iterable[object], prefix: str = "") -> str:
    """ "2, 4 or 8", each with `prefix`; "nothing" if there are no options."""
    texts = [f"{prefix}{option}" for option in options]
    if len(texts) < 2:
        return texts[0] if texts else "nothing"
    return f"{', '.join(texts[:-1])} or {texts[-1]}"
