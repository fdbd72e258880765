"""Tell the lines of a log that a parser must read from noise: most lines of a log differ in numbers only.

A log has few skeletons (`literals`), and for each it is asked once whether a parser must read its lines.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress, count
from typing import NamedTuple

from .literals import skeleton

MOST_SKELETONS = 1 << 16
"""Number of skeletons that are remembered; more are asked about again."""

Look = tuple[bytes, list[int], int]
"""A block without its empty lines, the places of the lines that must be read, and the number of its lines."""


class Asked(NamedTuple):
    """What is asked about a skeleton: whether its lines must be read, and if so, whether all of them must."""

    must_read: Callable[[bytes], bool]
    is_notice: Callable[[bytes], bool]
    most_notices: int
    """Number of lines of a notice that are read."""


class Noise:
    """What is known about the skeletons of one log."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._quiet: set[bytes] = set()
        self._loud: set[bytes] = set()
        self._notices: dict[bytes, int] = {}

    def look(self, block: bytes) -> Look:
        """Look at the next clean block."""
        skeletons = skeleton(block).split(b"\n")
        different = set(skeletons)
        if b"" in different:  # of an empty line, or of one that is nothing but a number
            block = without_empty_lines(block)
            skeletons = skeleton(block).split(b"\n") if block else []
        for bones in different - self._quiet - self._loud:
            self._decide(bones)
        loud = different & self._loud
        places = list(compress(count(), map(loud.__contains__, skeletons))) if loud else []
        for bones in loud & self._notices.keys():
            self._count(bones, skeletons.count(bones))
        self._forget_many()
        return block, places, len(skeletons)

    def _decide(self, bones: bytes) -> None:
        """Decide whether lines with this skeleton must be read."""
        loud = self._asked.must_read(bones)
        (self._loud if loud else self._quiet).add(bones)
        if loud and self._asked.is_notice(bones):
            self._notices[bones] = 0

    def _count(self, notice: bytes, lines: int) -> None:
        """Count lines that are nothing but a notice: every rank prints them, and the first ones tell it all."""
        self._notices[notice] += lines
        if self._notices[notice] > self._asked.most_notices:
            del self._notices[notice]
            self._loud.discard(notice)
            self._quiet.add(notice)

    def _forget_many(self) -> None:
        if len(self._quiet) + len(self._loud) > MOST_SKELETONS:
            self._quiet.clear()
            self._loud.clear()
            self._notices.clear()


def without_empty_lines(block: bytes) -> bytes:
    """The lines of a block that are not empty."""
    return b"\n".join(filter(None, block.split(b"\n")))
