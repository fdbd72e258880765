"""Put the records of a log parser together: merge records of a step, separate earlier attempts, drop strays."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from ..checks.base import MEASURE, Conflict, Damage
from ..logs.order import LogOrder, Order
from ..logs.parser import Record
from ..logs.restarts import FELL_TO, RESTARTED
from ..logs.stray import KEPT, is_too_large, is_too_small
from ..model import Event, Step, Value

MAX_CONFLICTS = 32
"""Maximum number of conflicts that are kept."""

PATIENCE = 64
"""Maximum number of records after a fallen step number that wait for the next step."""


class Log(Value, frozen=True):
    """Steps (ordered by number) and events of the last attempt in a log.

    `attempts` is the number of attempts in the log; `earlier` has the events of all attempts before the last one.
    Steps of earlier attempts are never mixed in. `after` has the events that follow the first line of the last step.
    `conflicts` has the numbers of steps that the log has twice, with another time or loss. `damage` is what could not
    be read as it is; `notes` has a line for each fault of a measure or of a source.

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
    notes: tuple[str, ...] = ()


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
        self._recent: deque[int] = deque(maxlen=KEPT)
        self._waiting: list[Record] = []
        self._undone = 0
        self._dropped: list[Step] = []
        self.strays: list[str] = []

    def add(self, record: Record) -> None:
        """Add one record. A later record of a step completes the earlier one; a new attempt discards earlier steps.

        A step number that falls begins a new attempt only if the next number goes on from there: else it is damaged,
        and its step is dropped (`strays` has a line for it).
        """
        if isinstance(record, Event) and record.kind == RESTARTED:
            self._settle()
            self._restart(record)
        elif self._waiting:
            self._decide(record)
        else:
            self._take(record)

    def _restart(self, event: Event) -> None:
        """Begin a new attempt; if a number fell, wait for the next one."""
        if FELL_TO not in event.facts:
            self._take(event)
        elif not self._drop_last(event.facts[FELL_TO]):
            self._waiting = [event]

    def _decide(self, record: Record) -> None:
        """Add a record that follows a fallen number: the number of the next step shows whether that was damaged."""
        fell_to = self._fell_to()
        is_next = isinstance(record, Step) and record.number != fell_to
        if isinstance(record, Step) and is_next and is_too_small([*self._recent], fell_to, record.number):
            self._undo(fell_to, *(each for each in self._waiting if isinstance(each, Step)))
            self._waiting = [each for each in self._waiting[1:] if isinstance(each, Event)]
        self._waiting.append(record)
        if is_next or len(self._waiting) > PATIENCE:
            self._settle()

    def _ends_damaged(self) -> bool:
        """Whether the last step's number is damaged: it fell, and its consumed samples continue those before it."""
        last = next((each for each in self._waiting if isinstance(each, Step)), None)
        if last is None or len(self._recent) < 2:
            return False
        known = [self._steps[number].consumed_samples for number in (*self._recent,)[-2:]]
        first, second, third = *known, last.consumed_samples
        return first is not None and second is not None and third is not None and third - second == second - first > 0

    def _fell_to(self) -> int:
        begun = self._waiting[0]
        return int(begun.facts[FELL_TO]) if isinstance(begun, Event) else -1

    def _settle(self) -> None:
        """Add the records that wait."""
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            self._take(record)

    def _take(self, record: Record) -> None:
        if isinstance(record, Event):
            self._add_event(record)
        else:
            self._add_step(record.replace(attempt=record.attempt - self._undone) if self._undone else record)

    def _drop_last(self, fell_to: object) -> bool:
        """Drop the last step if its number is a damaged one, too large; return whether it was."""
        if not isinstance(fell_to, int) or not is_too_large([*self._recent], fell_to):
            return False
        wrong = self._recent.pop()
        self._order.forget(self._recent[-1])
        self._undo(wrong, self._steps.pop(wrong))
        return True

    def _undo(self, number: int, *dropped: Step) -> None:
        """The log's next attempt is none: its parser noticed it by the damaged number of the `dropped` step."""
        self._undone += 1
        self._dropped += dropped
        self.strays.append(f"a step with the number {number} after step {self._recent[-1]}")

    def _add_step(self, record: Step) -> None:
        number, attempt = record.number, record.attempt
        if attempt > self._attempt:
            self._begin(attempt)
        if attempt == self._attempt:
            known = self._steps.get(number)
            if known is None:
                self._steps[number], self._before = record, len(self._events)
                self._order.step(number)
                self._recent.append(number)
                return
            if record.time_s is None and record.tflops_per_gpu is not None:
                self._paired.add(number)
            if len(self._conflicts) < MAX_CONFLICTS:
                self._conflicts += conflicts(known, record)
            self._steps[number] = merge(known, record)

    def log(self) -> Log:
        """Return the log collected so far."""
        if self._ends_damaged():
            self._undo(self._fell_to(), *(each for each in self._waiting if isinstance(each, Step)))
            self._waiting = [each for each in self._waiting[1:] if isinstance(each, Event)]
        self._settle()
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

        TFLOP/s of a line without a number belong to the step beside it, and are left out. In a log out of order no
        number is known to be damaged.
        """
        found = {step.number: step for step in (*self._dropped, *self._earlier_steps, *self._steps.values())}
        every = sorted(found.values(), key=lambda step: step.number)
        self.strays = []
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
        self._recent.clear()


def _alone(step: Step) -> Step:
    """The step with what its own line has, as one of the only attempt."""
    return step.replace(attempt=0, tflops_per_gpu=None, tflops_resolution=None)


def _without_times(step: Step) -> Step:
    return step.replace(time_s=None, tflops_per_gpu=None, tflops_resolution=None, tokens_per_s_per_gpu=None)


def conflicts(earlier: Step, later: Step) -> list[Conflict]:
    """Return the times, losses and measures of one step that are not the same in two records."""
    pairs = [(name, getattr(earlier, name), getattr(later, name)) for name in ("time_s", "loss")]
    pairs += [(MEASURE + name, known, later.measures.get(name)) for name, known in earlier.measures.items()]
    return [
        Conflict(number=earlier.number, field=name, first=first, second=second)
        for name, first, second in pairs
        if first is not None and second is not None and first != second and first == first and second == second
    ]


def merge(earlier: Step, later: Step) -> Step:
    """Return `earlier` updated with every member of `later` that is not None; a skipped step stays skipped."""
    values = zip(later.__struct_fields__, msgspec.structs.astuple(later), strict=True)
    known: dict[str, Any] = {name: value for name, value in values if value is not None}
    known["skipped"] = earlier.skipped or later.skipped
    known["measures"] = {**earlier.measures, **later.measures}
    return msgspec.structs.replace(earlier, **known)
