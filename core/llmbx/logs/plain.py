"""Reads a log of no known format: of it only failures are known."""

from __future__ import annotations

from collections.abc import Iterable

from .line import Line
from .parser import LogParser, Record
from .signatures import Signatures


class PlainParser(LogParser):
    """Finds failures that look alike in all frameworks."""

    def __init__(self) -> None:
        self._signatures = Signatures()

    def feed(self, line: Line) -> Iterable[Record]:
        """The failures of one line."""
        return self._signatures.feed(line)
