"""Detect restarts of the training inside one log, and lines that are out of order.

A training that restarts prints steps again that it has printed before, or starts from its first one. The
step numbers of a log whose lines are out of order (reversed, shuffled, joined wrongly, with a damaged
number) fall without such a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

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


CERTAIN = 2
"""Number of falls to new numbers that no training explains: one may be a restart whose checkpoint was lost."""

LATE = 0.1
"""Share of the steps that must be late inside one attempt: a process that lags behind prints lost lines of others."""


class Place(NamedTuple):
    """The first line of a step in its attempt; lines count from 1, and 0 is an unknown one."""

    number: int
    line: int = 0


class Attempt(NamedTuple):
    """The steps of one attempt in the order of the log.

    `by_number` is whether the attempt was noticed by a step number that fell, and not by a line printed at startup.
    """

    by_number: bool
    steps: list[Place]

    @property
    def numbers(self) -> set[int]:
        """The numbers of its steps."""
        return {step.number for step in self.steps}


Fall = tuple[Place, Place]
"""The step before the numbers fell, and the step that they fell to."""


def misplaced(attempts: Sequence[Attempt]) -> Fall | None:
    """The first two lines of steps that are out of order; None if no line is."""
    printed = [attempt for attempt in attempts if attempt.steps]
    return _late(printed) or _unexplained(printed) or _swapped(printed)


def _late(attempts: Sequence[Attempt]) -> Fall | None:
    """The first of many steps that follow one with a higher number in the same attempt.

    A step that is one lower is another process's.
    """
    late: list[Fall] = []
    for attempt in attempts:
        highest = attempt.steps[0]
        for step in attempt.steps:
            if step.number < highest.number - 1:
                late.append((highest, step))
            highest = max(highest, step)
    enough = max(CERTAIN, LATE * sum(len(attempt.steps) for attempt in attempts))
    return late[0] if len(late) >= enough else None


def _unexplained(attempts: Sequence[Attempt]) -> Fall | None:
    """The first fall of the step numbers that a restart of the training does not explain."""
    fresh: list[Fall] = []
    before: set[int] = set()
    for earlier, attempt in pairwise(attempts):
        before |= earlier.numbers
        fall = (max(earlier.steps), attempt.steps[0])
        if not attempt.by_number:
            continue
        if _is_wrong_number(attempt, fall):
            return fall
        if before.isdisjoint(attempt.numbers):
            fresh.append(fall)
            if min(before) < attempt.steps[0].number < max(before):
                return fall
    return fresh[0] if len(fresh) >= CERTAIN else None


def _is_wrong_number(attempt: Attempt, fall: Fall) -> bool:
    """Whether the numbers fell at one step only: the next one continues those before the fall."""
    return len(attempt.steps) > 1 and attempt.steps[1].number > fall[0].number


def _swapped(attempts: Sequence[Attempt]) -> Fall | None:
    """The first fall in a log that has every step of one training once: its parts were joined in the wrong order."""
    falls = [(max(earlier.steps), later.steps[0]) for earlier, later in pairwise(attempts)]
    falls = [fall for fall in falls if fall[1].number < fall[0].number]
    numbers = sorted(step.number for attempt in attempts for step in attempt.steps)
    distances = {after - before for before, after in pairwise(numbers)}
    return falls[0] if falls and len(distances) == 1 and 0 not in distances else None
