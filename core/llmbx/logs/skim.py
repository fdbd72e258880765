"""Choose the lines of a log that its parser must read. Only the blocks with such a line are split into lines."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import islice

from .compiled_noise import noise
from .lines import Line, text_of
from .literals import skeleton_of
from .noise import Asked
from .parser import LogParser
from .signatures import MAX_EVENTS, may_fail, only_notices

BLOCK = 1 << 16
"""Bytes of a log that are looked at together: so few that most blocks of a noisy log are only noise."""


class Skimmer:
    """Passes on the lines that a parser must read, each with the line before it, and all while the parser waits.

    Take the lines one at a time: what must be read depends on what the parser has read. `number` counts all lines. The
    loops are written for logs of millions of lines.
    """

    def __init__(self, parser: LogParser) -> None:
        self._parser = parser
        self._signs = None if parser.signs is None else tuple(map(skeleton_of, parser.signs))
        self._noise = noise(Asked(self._must_read, self._is_notice, MAX_EVENTS))
        self._skipped: Line | None = None
        self.number = 0

    def lines(self, block: bytes, arrived: float | None, source: str) -> Iterator[tuple[int, Line]]:
        """The lines of the next clean block that the parser must read, each with its number from 1."""
        block, places, lines = self._noise.look(block)
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

    def _must_read(self, bones: bytes) -> bool:
        return self._is_sign(bones) or may_fail(bones)

    def _is_notice(self, bones: bytes) -> bool:
        """Whether nothing but a notice is in such lines: every rank prints them, and the first ones tell it all."""
        return not self._is_sign(bones) and only_notices(bones)

    def _is_sign(self, bones: bytes) -> bool:
        return self._signs is None or any(sign in bones for sign in self._signs)
