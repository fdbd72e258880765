"""From what a grammar yields to one log: records of one step merged, earlier attempts set aside."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ..logs.restarts import RESTARTED
from ..logs.lines import read_lines
from ..logs.parser import LogParser, Record
from ..model import Event, Step, Value
from ..plugins.isolation import quiet
from ..plugins.log_parser import as_grammar


class Log(Value, frozen=True):
    """Steps and events of the attempt that counts: the last one in the log. Steps are in the order of their numbers.

    `attempts` says how many the log holds; `earlier` keeps the events of those that were restarted. Steps of earlier
    attempts are never mixed in.
    """

    steps: list[Step] = []
    events: list[Event] = []
    attempts: int = 1
    earlier: list[Event] = []


class Collector:
    """Takes a grammar's records one at a time and knows, at any time, the log so far."""

    def __init__(self) -> None:
        self._steps: dict[int, Step] = {}
        self._events: list[Event] = []
        self._earlier: list[Event] = []
        self._attempt = 0

    def add(self, record: Record) -> None:
        """Take one record. The later record of a step completes the earlier one; a new attempt starts afresh."""
        if isinstance(record, Event):
            self._add_event(record)
            return
        number, attempt = record.number, record.attempt
        if attempt > self._attempt:
            self._begin(attempt)
        if attempt == self._attempt:
            known = self._steps.get(number)
            self._steps[number] = record if known is None else merge(known, record)

    def log(self) -> Log:
        """What is known so far."""
        steps = [self._steps[number] for number in sorted(self._steps)]
        return Log(steps=steps, events=[*self._events], attempts=self._attempt + 1, earlier=[*self._earlier])

    def _add_event(self, event: Event) -> None:
        if event.kind == RESTARTED:
            self._begin(self._attempt + 1)
        self._events.append(event)

    def _begin(self, attempt: int) -> None:
        self._earlier += self._events
        self._events, self._steps, self._attempt = [], {}, attempt


def merge(earlier: Step, later: Step) -> Step:
    """`earlier` with every member that `later` knows; a skipped step stays skipped."""
    values = zip(later.__struct_fields__, msgspec.structs.astuple(later), strict=True)
    known: dict[str, Any] = {name: value for name, value in values if value is not None}
    known["skipped"] = earlier.skipped or later.skipped
    return msgspec.structs.replace(earlier, **known)


def collect(parser: LogParser, lines: Iterable[str]) -> Log:
    """The log that `parser` reads from clean `lines` (see `llmbx.logs.lines`)."""
    collector, grammar = Collector(), as_grammar(parser)
    with quiet():
        grammar.read(lines, collector.add)
        for record in grammar.close():
            collector.add(record)
    return collector.log()


def collect_file(parser: LogParser, path: Path) -> Log:
    """The log in the file at `path`; an empty one where there is no such file, or can be none of that name."""
    try:
        return collect(parser, read_lines(path))
    except FileNotFoundError:
        return Log()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return Log()
        raise
