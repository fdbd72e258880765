"""Lay out a table: what has no room in its column is wrapped, between words if possible. Numbers are not broken."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

GAP = 2
"""Spaces between columns."""

LONGEST_WORD = 24
"""Longest word, in characters, for which a column of texts is kept wide enough."""


SHORT = 6
"""Width of a column with longer words if there is little room."""


class Column(NamedTuple):
    """A column of a table: its heading and cells. Numbers are aligned to the right."""

    head: str
    cells: Sequence[str]
    number: bool

    @property
    def least(self) -> int:
        """Width at which only words of more than `LONGEST_WORD` characters are broken, and no number."""
        return self._width(LONGEST_WORD)

    @property
    def limits(self) -> tuple[int, ...]:
        """Least widths, in the order in which they are tried: those at which nothing is broken come first.

        First only the heading is wrapped, then texts at spaces; then words are broken, at last numbers.
        """
        widest = max(map(len, self.cells), default=0)
        broken = widest if self.number else 1
        return max(_longest(self.head), widest), self.least, self._width(SHORT), broken, 1

    def _width(self, broken: int) -> int:
        """Width of the longest word, or `broken` if it has more than `LONGEST_WORD` characters."""
        longest = max(len(text) if self.number else _longest(text) for text in (*self.cells, ""))
        return max(_longest(self.head), broken if longest > LONGEST_WORD and not self.number else longest)


def fitting(columns: Sequence[Column], room: int, optional: Sequence[str]) -> list[Column]:
    """Return the columns without the first of the `optional` ones (headings), as many as have no room."""
    kept = list(columns)
    for head in optional:
        if _total([column.least for column in kept]) <= room:
            break
        kept = [column for column in kept if column.head != head]
    return kept


def lines(columns: Sequence[Column], room: int | None = None) -> Iterator[str]:
    """Yield the lines of a table that is at most `room` characters wide; None: as wide as its texts."""
    widths = [max(map(len, (column.head, *column.cells))) for column in columns]
    if room is not None:
        widths = [min(width, room) for width in widths]
        for limits in zip(*(column.limits for column in columns), strict=True):
            _shrink(widths, limits, room)
    for row in zip(*((column.head, *column.cells) for column in columns), strict=True):
        yield from _wrapped(row, widths, [column.number for column in columns])


def _shrink(widths: list[int], limits: Sequence[int], room: int) -> None:
    """Make the widest columns narrower, but none narrower than its limit, until the table fits."""
    while _total(widths) > room:
        wide = [index for index, width in enumerate(widths) if width > limits[index]]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _longest(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _wrapped(row: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of one row."""
    parts = [
        [text] if len(text) <= width else _wrap(text, width) or [""] for text, width in zip(row, widths, strict=True)
    ]
    for pieces in zip_longest(*parts, fillvalue=""):
        cells = [
            piece.rjust(width) if number else piece.ljust(width)
            for piece, width, number in zip(pieces, widths, numbers, strict=True)
        ]
        yield (" " * GAP).join(cells).rstrip()


def _wrap(text: str, width: int) -> list[str]:
    """The lines of a text: broken between words, else within a path or name after one of its signs."""
    words = [piece for word in text.split() for piece in _cut(word, width)]
    return textwrap.wrap(" ".join(words), width, break_on_hyphens=False)


def _cut(word: str, width: int) -> list[str]:
    """The pieces of a word that is longer than a line, as long as possible."""
    if len(word) <= width:
        return [word]
    pieces = [""]
    for part in re.split(r"(?<=[/_.-])(?=[^/_.-])", word):
        if pieces[-1] and len(pieces[-1]) + len(part) > width:
            pieces.append("")
        pieces[-1] += part
    return pieces
