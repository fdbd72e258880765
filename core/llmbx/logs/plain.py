"""Read a log of an unknown format: its failures, and whether the program continued after them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..model import Event
from .lines import Line
from .parser import LogParser, Record
from .signatures import Signatures
from .timeline import PROGRESS, WENT_ON, role

_PROGRESS = re.compile(
    r"\b(?:[Ss]tep|[Ii]ter(?:ation)?|[Ee]poch|[Bb]atch|[Uu]pdate)\b\W{0,5}(\d{1,15}(?:\.\d{1,15})?)"
    r"|\b(\d{1,15})/\d{1,15} \["
)
"""The number of a step, an epoch or a progress bar."""

_WORDS = ("tep", "ter", "poch", "atch", "pdate", "/")
"""What a line of progress has one of; most lines have none."""


class PlainParser(LogParser):
    """Finds failures that look alike in all frameworks. After one it counts the lines whose step is a later one."""

    signs = ()

    def __init__(self) -> None:
        self._signatures = Signatures()
        self._missing = 0
        self._highest: float | None = None

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Whether a failure is open, or its progress is watched."""
        return self._signatures.waits or self._missing > 0

    def feed(self, line: Line) -> Iterable[Record]:
        """The events of one line, or the progress that it shows after a failure."""
        events = self._signatures.feed(line)
        if any(role(event) != "notice" for event in events):
            self._missing, self._highest = WENT_ON, None
        elif self._missing and any(map(line.__contains__, _WORDS)) and (printed := _PROGRESS.search(line)):
            return self._progress(float(printed[1] or printed[2]), line)
        return events

    def _progress(self, number: float, line: Line) -> list[Record]:
        """Nothing for the first one: another rank may print it late, or the same one again."""
        before, self._highest = self._highest, max(number, self._highest or number)
        if before is None or number <= before:
            return []
        self._missing -= 1
        return [Event(kind=PROGRESS, text=line[:100])]
