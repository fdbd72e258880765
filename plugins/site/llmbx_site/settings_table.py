"""Lay out settings with their values and origins: one line each, with a legend of long origins."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

Row = Mapping[str, Any]

GAP = 2
"""Spaces between columns."""

SHORT = 12
"""Longest origin that stands beside its value.

A longer one has a number there, and stands in the legend.
"""


def lines(rows: Sequence[Row], room: int | None) -> Iterator[str]:
    """Yield the lines of `setting`, `value` and `origin`, for `room` columns (None: no limit).

    Settings with the same prefix (`env.`) are a block of their own. No word is broken.
    """
    numbers: dict[str, int] = {}
    origins = [_name(row["origin"], numbers) for row in rows]
    pairs = zip(rows, origins, strict=True)
    for first, (_, block) in enumerate(
        groupby(pairs, key=lambda pair: _prefix(pair[0]["setting"]))
    ):
        yield from [""] if first else []
        yield from _block(list(block), room)
    yield from [""] if numbers else []
    for text, number in numbers.items():
        yield from _wrapped(f"[{number}] {text}", room, "    ")


def _name(origin: str, numbers: dict[str, int]) -> str:
    """The short name of an origin. A long one gets a number, the same everywhere."""
    if len(origin) <= SHORT:
        return origin
    word, number = origin.split()[0].rstrip(":,;"), numbers.setdefault(origin, len(numbers) + 1)
    return f"{word} [{number}]" if word.isalpha() and 3 < len(word) <= SHORT else f"[{number}]"


def _prefix(setting: str) -> str:
    return setting.partition(".")[0] if "." in setting else ""


def _block(pairs: Sequence[tuple[Row, str]], room: int | None) -> Iterator[str]:
    left, right = (
        max(len(row["setting"]) for row, _ in pairs),
        max(len(origin) for _, origin in pairs),
    )
    longest = max(len(row["value"]) for row, _ in pairs)
    middle = longest if room is None else min(longest, max(room - left - right - 2 * GAP, SHORT))
    for row, origin in pairs:
        first, *more = _wrapped(row["value"], middle)
        yield f"{row['setting']:<{left}}{' ' * GAP}{first:<{middle}}{' ' * GAP}{origin}".rstrip()
        yield from (" " * (left + GAP) + line for line in more)


def _wrapped(text: str, room: int | None, indent: str = "") -> list[str]:
    """The text between words; one that is longer than a line stays whole."""
    if room is None:
        return [text]
    wrapper = textwrap.TextWrapper(
        room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.wrap(text) or [""]
