"""Lay out a table that is wider than the terminal: headings and texts are wrapped between words, numbers never."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

GAP = 2
"""Spaces between columns."""

LONGEST_WORD = 16
"""The most characters that a word takes in a column of text; a longer one is broken."""


class Column(NamedTuple):
    """A column of a table: its heading and cells. Numbers are aligned to the right."""

    head: str
    cells: Sequence[str]
    number: bool

    @property
    def natural(self) -> int:
        """Width at which nothing is wrapped."""
        return max(map(len, (self.head, *self.cells)))

    @property
    def least(self) -> int:
        """Width of the longest word; of numbers, that of the widest cell."""
        if self.number:
            return max(_longest(self.head), max(map(len, self.cells), default=0))
        return max(_longest(self.head), min(LONGEST_WORD, max(map(_longest, self.cells), default=0)))


def columns_that_fit(columns: Sequence[Column], room: int, optional: Sequence[str] = ()) -> list[Column] | None:
    """Return the columns without the first of the `optional` ones (headings) that have no room; None if none help."""
    for count in range(len(optional) + 1):
        kept = [column for column in columns if column.head not in optional[:count]]
        if sum(column.least for column in kept) + GAP * (len(kept) - 1) <= room:
            return kept
    return None


def lines(columns: Sequence[Column], room: int) -> list[str]:
    """Return the lines of a table whose columns fit into `room` characters.

    Each column begins with its least width. The rest goes to the columns that lack least, so that they need no
    wrapping, or to those that lack most, whichever takes fewer lines.
    """
    return min((_lines(columns, widths(columns, room)) for widths in (_few_wrapped, _evenly_wrapped)), key=len)


def _few_wrapped(columns: Sequence[Column], room: int) -> list[int]:
    widths, spare = _least(columns, room)
    for index in sorted(range(len(columns)), key=lambda index: columns[index].natural - widths[index]):
        given = min(spare, columns[index].natural - widths[index])
        widths[index] += given
        spare -= given
    return widths


def _evenly_wrapped(columns: Sequence[Column], room: int) -> list[int]:
    widths, spare = _least(columns, room)
    for _ in range(spare):
        lacking = [column.natural - width for column, width in zip(columns, widths, strict=True)]
        if max(lacking) <= 0:
            break
        widths[lacking.index(max(lacking))] += 1
    return widths


def _least(columns: Sequence[Column], room: int) -> tuple[list[int], int]:
    """Return the least width of each column, and the characters that are left."""
    widths = [column.least for column in columns]
    return widths, room - sum(widths) - GAP * (len(widths) - 1)


def _lines(columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    rows = zip(*((column.head, *column.cells) for column in columns), strict=True)
    return [line for row in rows for line in _wrapped(row, widths, [column.number for column in columns])]


def _longest(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _wrapped(row: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> list[str]:
    """Return the lines of one row."""
    parts = [textwrap.wrap(text, width) or [""] for text, width in zip(row, widths, strict=True)]
    found = []
    for pieces in zip_longest(*parts, fillvalue=""):
        cells = [
            piece.rjust(width) if number else piece.ljust(width)
            for piece, width, number in zip(pieces, widths, numbers, strict=True)
        ]
        found.append((" " * GAP).join(cells).rstrip())
    return found
