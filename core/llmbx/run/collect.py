"""Collect the records of a log parser into one log: merge records of a step, separate earlier attempts."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ..checks.base import Conflict, Damage
from ..logs.lines import LineReader, read_lines
from ..logs.order import LogOrder, Order
from ..logs.parser import LogParser, Record
from ..logs.restarts import FELL_TO, RESTARTED
from ..model import Event, Step, Value
from ..plugins.isolation import stdout_to_stderr
from ..plugins.log_parser import as_checked

MAX_CONFLICTS = 32
"""Maximum number of conflicts that are kept."""


class Log(Value, frozen=True):
    """Steps (ordered by number) and events of the last attempt in a log.

    `attempts` is the number of attempts in the log; `earlier` has the events of all attempts before the last one.
    Steps of earlier attempts are never mixed in. `after` has the events that follow the first line of the last step.
    `conflicts` has the numbers of steps that the log has twice, with another time or loss. `damage` is what could not
    be read as it is.

    `order` is how the steps were ordered. If they were `sorted`, all of them are one attempt, and `after` is empty. If
    they are `mixed`, the steps are those of the last attempt without times, so that nothing is measured from them.
    """

    steps: list[Step] = []
    events: list[Event] = []
    attempts: int = 1
    earlier: list[Event] = []
    after: list[Event] = []
    conflicts: list[Conflict] = []
    order: LogOrder = "printed"
    damage: Damage = Damage()


class Collector:
    """Collects the records of a log parser one at a time; `log` returns the state so far."""

    def __init__(self) -> None:
        self._steps: dict[int, Step] = {}
        self._events: list[Event] = []
        self._earlier: list[Event] = []
        self._conflicts: list[Conflict] = []
        self._attempt = 0
        self._before = 0
        self._order = Order()
        self._earlier_steps: list[Step] = []
        self._earlier_conflicts: list[Conflict] = []
        self._paired: set[int] = set()

    def add(self, record: Record) -> None:
        """Add one record. A later record of a step completes the earlier one; a new attempt discards earlier steps."""
        if isinstance(record, Event):
            self._add_event(record)
            return
        number, attempt = record.number, record.attempt
        if attempt > self._attempt:
            self._begin(attempt)
        if attempt == self._attempt:
            known = self._steps.get(number)
            if known is None:
                self._steps[number], self._before = record, len(self._events)
                self._order.step(number)
                return
            if record.time_s is None and record.tflops_per_gpu is not None:
                self._paired.add(number)
            if len(self._conflicts) < MAX_CONFLICTS:
                self._conflicts += conflicts(known, record)
            self._steps[number] = merge(known, record)

    def log(self) -> Log:
        """Return the log collected so far."""
        order = self._order.decide(self._steps)
        steps = [self._steps[number] for number in sorted(self._steps)]
        if order == "sorted":
            return self._sorted()
        return Log(
            steps=[_without_times(step) for step in steps] if order == "mixed" else steps,
            events=[*self._events],
            attempts=self._attempt + 1,
            earlier=[*self._earlier],
            after=self._events[self._before :],
            conflicts=[*self._conflicts],
            order=order,
        )

    def _sorted(self) -> Log:
        """Return all steps as those of one attempt, in the order of their numbers.

        TFLOP/s of a line without a number belong to the step beside it, and are left out.
        """
        every = sorted((*self._earlier_steps, *self._steps.values()), key=lambda step: step.number)
        return Log(
            steps=[_alone(step) if step.number in self._paired else step.replace(attempt=0) for step in every],
            events=[event for event in (*self._earlier, *self._events) if event.kind != RESTARTED],
            conflicts=[*self._earlier_conflicts, *self._conflicts][:MAX_CONFLICTS],
            order="sorted",
        )

    def _add_event(self, event: Event) -> None:
        if event.kind == RESTARTED:
            self._begin(self._attempt + 1, by_number=FELL_TO in event.facts)
        self._events.append(event)

    def _begin(self, attempt: int, by_number: bool = False) -> None:
        self._order.begin(self._steps, by_number)
        self._earlier_steps += self._steps.values()
        self._earlier_conflicts += self._conflicts
        self._earlier += self._events
        self._events, self._steps, self._attempt = [], {}, attempt
        self._conflicts, self._before = [], 0


def _alone(step: Step) -> Step:
    """The step with what its own line has, as one of the only attempt."""
    return step.replace(attempt=0, tflops_per_gpu=None, tflops_resolution=None)


def _without_times(step: Step) -> Step:
    return step.replace(time_s=None, tflops_per_gpu=None, tflops_resolution=None, tokens_per_s_per_gpu=None)


def conflicts(earlier: Step, later: Step) -> list[Conflict]:
    """Return the times and losses of one step that are not the same in two records."""
    found = []
    for name in ("time_s", "loss"):
        first, second = getattr(earlier, name), getattr(later, name)
        if first is not None and second is not None and first != second and first == first and second == second:
            found.append(Conflict(number=earlier.number, field=name, first=first, second=second))
    return found


def merge(earlier: Step, later: Step) -> Step:
    """Return `earlier` updated with every member of `later` that is not None; a skipped step stays skipped."""
    values = zip(later.__struct_fields__, msgspec.structs.astuple(later), strict=True)
    known: dict[str, Any] = {name: value for name, value in values if value is not None}
    known["skipped"] = earlier.skipped or later.skipped
    return msgspec.structs.replace(earlier, **known)


def collect(parser: LogParser, lines: Iterable[str]) -> Log:
    """Parse clean `lines` (see `llmbx.logs.lines`) into a log."""
    collector, checked = Collector(), as_checked(parser)
    with stdout_to_stderr():
        checked.read(lines, collector.add)
        for record in checked.close():
            collector.add(record)
    found: Log = collector.log().replace(damage=Damage(numbers=checked.odd_count, examples=tuple(checked.odd)))
    return found


def collect_file(parser: LogParser, path: Path) -> Log:
    """Parse the log file at `path`; return an empty log if it does not exist or its name is too long to exist."""
    reader = LineReader()
    try:
        log = collect(parser, read_lines(path, reader=reader))
        found: Log = log.replace(damage=log.damage.replace(long_lines=reader.long_lines))
        return found
    except FileNotFoundError:
        return Log()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return Log()
        raise
