"""Choose the lines of a log that its parser must read: most lines of a long log are noise.

A log has few skeletons (`literals`), and for each it is asked once whether a parser must read its lines. Only the
blocks with such a line are split into lines and decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import compress, count, islice

from .line import Line
from .lines import text_of
from .literals import skeleton, skeleton_of
from .parser import LogParser
from .signatures import MAX_EVENTS, may_fail, only_notices

BLOCK = 1 << 16
"""Bytes of a log that are looked at together: so few that most blocks of a noisy log are only noise."""

MOST_SKELETONS = 1 << 16
"""Number of skeletons that are remembered; more are asked about again."""


class Skimmer:
    """Passes on the lines that a parser must read, each with the line before it, and all while the parser waits.

    Take the lines one at a time: what must be read depends on what the parser has read. `number` counts all lines. The
    loops are written for logs of millions of lines.
    """

    def __init__(self, parser: LogParser) -> None:
        self._parser = parser
        self._signs = None if parser.signs is None else tuple(map(skeleton_of, parser.signs))
        self._quiet: set[bytes] = set()
        self._loud: set[bytes] = set()
        self._notices: dict[bytes, int] = {}
        self._skipped: Line | None = None
        self.number = 0

    def lines(self, block: bytes, arrived: float | None, source: str) -> Iterator[tuple[int, Line]]:
        """The lines of the next clean block that the parser must read, each with its number from 1."""
        block, places, lines = self._look(block)
        if not lines:
            return
        texts, taken = BytesIO(block), 0
        following, position = 0, 0
        if places and places[0] == 0 and self._skipped is not None and not self._parser.waits:
            yield self.number, self._skipped
        while position < lines:
            while following < len(places) and places[following] < position:
                following += 1
            if not self._parser.waits:
                if following == len(places):
                    break
                position = max(position, places[following] - 1)
            text = next(islice(texts, position - taken, None)).rstrip(b"\n")
            yield self.number + position + 1, Line(text_of(text), arrived, source)
            position = taken = position + 1
        self.number += lines
        self._skipped = Line(text_of(block[block.rfind(b"\n") + 1 :]), arrived, source) if position < lines else None

    def _look(self, block: bytes) -> tuple[bytes, list[int], int]:
        """The block without empty lines, the places of the lines that must always be read, and the number of lines."""
        skeletons = skeleton(block).split(b"\n")
        here = set(skeletons)
        if b"" in here:  # of an empty line, or of one that is nothing but a number
            block = b"\n".join(filter(None, block.split(b"\n")))
            skeletons = skeleton(block).split(b"\n") if block else []
        loud = self._loud_of(here)
        places = list(compress(count(), map(loud.__contains__, skeletons))) if loud else []
        for bones in loud & self._notices.keys():
            self._count(bones, skeletons.count(bones))
        return block, places, len(skeletons)

    def _count(self, notice: bytes, lines: int) -> None:
        """Count lines that are nothing but a notice: every rank prints them, and the first ones tell it all."""
        self._notices[notice] += lines
        if self._notices[notice] > MAX_EVENTS:
            del self._notices[notice]
            self._loud.discard(notice)
            self._quiet.add(notice)

    def _loud_of(self, here: set[bytes]) -> set[bytes]:
        """The skeletons of lines that must be read."""
        for bones in here - self._quiet - self._loud:
            (self._loud if self._must_read(bones) else self._quiet).add(bones)
            if bones in self._loud and not self._is_sign(bones) and only_notices(bones):
                self._notices[bones] = 0
        loud = here & self._loud
        if len(self._quiet) + len(self._loud) > MOST_SKELETONS:
            self._quiet.clear()
            self._loud.clear()
            self._notices.clear()
        return loud

    def _must_read(self, bones: bytes) -> bool:
        return self._is_sign(bones) or may_fail(bones)

    def _is_sign(self, bones: bytes) -> bool:
        return self._signs is None or any(sign in bones for sign in self._signs)
