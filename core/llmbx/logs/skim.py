"""Choose the lines of a log that its parser must read: most lines of a long log are noise.

Lines that differ only in their numbers have one shape, and a log has few shapes. A parser is asked once about each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .line import Line
from .literals import without_numbers
from .parser import LogParser

MOST_SHAPES = 1 << 16
"""Number of shapes that are remembered; more are asked about again."""


class Skimmer:
    """Passes on the lines that matter to a parser, each with the line before it, and all while the parser waits.

    With `reads_all` the parser gets every line. Take the lines one at a time: what matters depends on what the parser
    has read. `number` counts all lines. The loops are written for logs of millions of lines.
    """

    def __init__(self, parser: LogParser, reads_all: bool) -> None:
        self._parser = parser
        self._reads_all = reads_all
        self._quiet: set[bytes] = set()
        self._loud: set[bytes] = set()
        self._skipped: Line | None = None
        self.number = 0

    def lines(self, texts: Sequence[str], arrived: float | None, source: str) -> Iterator[tuple[int, Line]]:
        """The lines of the next part of the log that the parser must read, each with its number from 1."""
        places = range(len(texts)) if self._reads_all else self._places(texts)
        following, position = 0, 0
        if places and places[0] == 0 and self._skipped is not None and not self._parser.waits:
            yield self.number, self._skipped
        while position < len(texts):
            while following < len(places) and places[following] < position:
                following += 1
            if not (self._reads_all or self._parser.waits):
                if following == len(places):
                    break
                position = max(position, places[following] - 1)
            yield self.number + position + 1, Line(texts[position], arrived, source)
            position += 1
        self.number += len(texts)
        if texts:
            self._skipped = Line(texts[-1], arrived, source) if position < len(texts) else None

    def _places(self, texts: Sequence[str]) -> list[int]:
        """The places of the lines that may matter to a parser that does not wait."""
        shapes = without_numbers("\n".join(texts)).split(b"\n")
        here = set(shapes)
        for shape in here - self._quiet - self._loud:
            matters = self._parser.matters(shape.decode("utf-8", "replace"))
            (self._loud if matters else self._quiet).add(shape)
        loud = here & self._loud
        places = [place for place, shape in enumerate(shapes) if shape in loud] if loud else []
        if len(self._quiet) + len(self._loud) > MOST_SHAPES:
            self._quiet.clear()
            self._loud.clear()
        return places
