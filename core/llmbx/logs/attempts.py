"""Restarts inside one log: when a new attempt begins."""

from __future__ import annotations

from ..model import Event

RESTARTED = "restarted"
"""Kind of the event with which a grammar announces that a new attempt begins in the same log."""


class Attempts:
    """Counts the attempts in one log, from 0.

    A new one begins where a line that only a starting program prints follows steps, or where the step numbers fall
    back by two or more. A number that repeats, or lags by one, is another rank printing the same step.
    """

    def __init__(self) -> None:
        self.current = 0
        self._last: int | None = None

    def start(self, line: str) -> list[Event]:
        """`line` is one that a starting program prints once; the event if this begins a new attempt."""
        return self._next(line) if self._last is not None else []

    def step(self, number: int, line: str) -> list[Event]:
        """`line` tells of this step; the event if this begins a new attempt."""
        events = self._next(line) if self._last is not None and number < self._last - 1 else []
        self._last = number if self._last is None else max(self._last, number)
        return events

    def _next(self, line: str) -> list[Event]:
        self.current += 1
        self._last = None
        return [Event(kind=RESTARTED, text=line.strip(), facts={"attempt": self.current})]
