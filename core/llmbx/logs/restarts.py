"""Detect restarts of the training inside one log."""

from __future__ import annotations

from ..model.step import Event
from .printed import LARGEST_STEP

RESTARTED = "restarted"
"""Kind of the event with which a grammar announces that a new attempt begins in the same log."""

FELL_TO = "fell_to"
"""Fact of such an event: the step number, lower than those before, by which the new attempt was noticed."""


class Attempts:
    """Counts the attempts in one log, from 0.

    A new attempt starts if a line that is printed only at startup follows steps, or if the step number falls by two or
    more. A number that repeats, or is one lower, comes from another rank printing the same step. A number that no step
    can have is ignored.
    """

    def __init__(self) -> None:
        self.current = 0
        self._last: int | None = None

    def start(self, line: str) -> list[Event]:
        """Handle a line that is printed once at startup; returns an event if it starts a new attempt."""
        return self._next(line) if self._last is not None else []

    def step(self, number: int, line: str) -> list[Event]:
        """Handle a line of the step `number`; returns an event if it starts a new attempt."""
        if number > LARGEST_STEP:
            return []
        events = self._next(line, number) if self._last is not None and number < self._last - 1 else []
        self._last = number if self._last is None else max(self._last, number)
        return events

    def _next(self, line: str, number: int | None = None) -> list[Event]:
        self.current += 1
        self._last = None
        fell = {} if number is None else {FELL_TO: number}
        return [Event(kind=RESTARTED, text=line.strip(), facts={"attempt": self.current, **fell})]
