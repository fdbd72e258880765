"""Read logs with a parser, and put its records together: merge those of a step, separate earlier attempts."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..logs.lines import Line, LineReader, line_number
from ..logs.restarts import FELL_TO, RESTARTED, Attempt, Fall, Place, misplaced
from ..logs.skim import BLOCK, Skimmer
from ..logs.source_files import Reads, SourceFile, SourceFiles, pieces
from ..logs.timeline import failure
from ..measure.window import begun_after, with_covers
from ..model import Event, Step, Value
from ..model.evidence import MEASURE, Conflict, Damage
from ..model.failure import Failure
from ..plugins.log_parser import CheckedParser, as_checked
from ..record import arrivals
from ..run_files import RunFile

if TYPE_CHECKING:
    from ..logs.parser import LogParser, Record
    from ..record.folder import Run

T = TypeVar("T")

MAX_CONFLICTS = 32
"""Maximum number of conflicts that are kept."""


class Log(Value, frozen=True):
    """Steps (ordered by number) and events of the last attempt in a log.

    `attempts` is the number of attempts in the log; `earlier` has the events of all attempts before the last one.
    Steps of earlier attempts are never mixed in. `after` has the events that follow the first line of the last step.
    `conflicts` has the numbers of steps that the log has twice, with another time or loss. `damage` is what could not
    be read as it is; `notes` has a line for each fault of a measure or of a source.

    `later` is the number of steps after each event: what training steps follow, the training survived.

    `out_of_order` names the first two lines of steps that are out of order. Such a log is one attempt, whose steps have
    their numbers only, so that nothing is measured from them.
    """

    steps: list[Step] = []
    events: list[Event] = []
    attempts: int = 1
    earlier: list[Event] = []
    after: list[Event] = []
    later: list[int] = []
    conflicts: list[Conflict] = []
    out_of_order: str | None = None
    damage: Damage = Damage()
    notes: tuple[str, ...] = ()

    @property
    def failure(self) -> Failure | None:
        """The first failure in the log that the training did not survive; None if there is none."""
        return failure(self.events, self.later, bool(self.steps))

    @property
    def failure_of_failed(self) -> Failure | None:
        """The same for a run that is known to have failed."""
        return failure(self.events, self.later, bool(self.steps), failed=True)


class Collector:
    """Collects the records of a log parser one at a time; `log` returns the state so far.

    `path` is the file whose lines are `numbered`, to name those that are out of order.
    """

    def __init__(self, path: Path | RunFile | None = None) -> None:
        self._path = path
        self._line = 0
        self._steps: dict[int, Step] = {}
        self._events: list[Event] = []
        self._earlier: list[Event] = []
        self._conflicts: list[Conflict] = []
        self._attempt = 0
        self._before = 0
        self._steps_before: list[int] = []
        self._attempts = [Attempt(by_number=False, steps=[])]

    def numbered(self, lines: Iterable[tuple[int, T]]) -> Iterator[T]:
        """The next lines of the log, by number; a record that is added meanwhile comes from the latest one."""
        for number, line in lines:
            self._line = number
            yield line

    def add(self, record: Record, ordered: bool = True) -> None:
        """Add one record. A later record of a step completes the earlier one; a new attempt discards earlier steps.

        `ordered` is whether the record has its place in the log: the records of other files follow those of the log.
        """
        if isinstance(record, Event):
            self._add_event(record)
        else:
            self._add_step(record, ordered)

    def _add_event(self, event: Event) -> None:
        if event.kind == RESTARTED:
            self._begin(self._attempt + 1, by_number=FELL_TO in event.facts)
        self._events.append(event)
        self._steps_before.append(len(self._steps))

    def _add_step(self, record: Step, ordered: bool) -> None:
        number, attempt = record.number, record.attempt
        if attempt > self._attempt:
            self._begin(attempt)
        if attempt < self._attempt:
            return
        earlier = self._steps.get(number)
        if earlier is not None:
            if len(self._conflicts) < MAX_CONFLICTS:
                self._conflicts += conflicts(earlier, record)
            self._steps[number] = merge(earlier, record)
            return
        self._steps[number] = record
        self._before = len(self._events)
        if ordered:
            self._attempts[-1].steps.append(Place(number, self._line))

    def _begin(self, attempt: int, by_number: bool = False) -> None:
        self._attempts.append(Attempt(by_number, steps=[]))
        self._earlier += self._events
        self._events, self._steps, self._attempt = [], {}, attempt
        self._conflicts, self._before, self._steps_before = [], 0, []

    def log(self) -> Log:
        """Return the log collected so far. Raises `OSError` if lines are to be named and their file is gone."""
        fall = misplaced(self._attempts)
        if fall is not None:
            return self._out_of_order(fall)
        return Log(
            steps=[self._steps[number] for number in sorted(self._steps)],
            events=[*self._events],
            attempts=self._attempt + 1,
            earlier=[*self._earlier],
            after=self._events[self._before :],
            later=[len(self._steps) - before for before in self._steps_before],
            conflicts=[*self._conflicts],
        )

    def _out_of_order(self, fall: Fall) -> Log:
        numbers = {place.number for attempt in self._attempts for place in attempt.steps}
        return Log(
            steps=[Step(number=number) for number in sorted(numbers.union(self._steps))],
            events=[event for event in (*self._earlier, *self._events) if event.kind != RESTARTED],
            out_of_order=self._where(fall),
        )

    def _where(self, fall: Fall) -> str:
        before, after = fall
        if not before.line:
            return f"steps {before.number} and {after.number}"
        if self._path is None:
            return f"lines {before.line} and {after.line}"
        return f"lines {line_number(self._path, before.line)} and {line_number(self._path, after.line)}"


def conflicts(earlier: Step, later: Step) -> list[Conflict]:
    """Return the times, losses and measures of one step that are not the same in two records."""
    pairs = [(name, getattr(earlier, name), getattr(later, name)) for name in ("time_s", "loss")]
    pairs += [(MEASURE + name, value, later.measures.get(name)) for name, value in earlier.measures.items()]
    return [
        Conflict(number=earlier.number, field=name, first=first, second=second)
        for name, first, second in pairs
        if first is not None and second is not None and first != second and first == first and second == second
    ]


def merge(earlier: Step, later: Step) -> Step:
    """Return `earlier` updated with every member of `later` that is not None; a skipped step stays skipped."""
    values = zip(later.__struct_fields__, msgspec.structs.astuple(later), strict=True)
    members: dict[str, Any] = {name: value for name, value in values if value is not None}
    members["skipped"] = earlier.skipped or later.skipped
    members["measures"] = {**earlier.measures, **later.measures}
    return msgspec.structs.replace(earlier, **members)


MISSING = (errno.ENOENT, errno.ENAMETOOLONG)
"""The errors of a file that does not exist, or whose name is too long to exist."""


def collect(parser: LogParser, lines: Iterable[str]) -> Log:
    """Parse clean `lines` (see `llmbx.logs.lines`) into a log."""
    checked, collector = as_checked(parser), Collector()
    checked.read(collector.numbered(enumerate(map(Line, lines), 1)), collector.add)
    return _closed(checked, collector)


def collect_file(parser: LogParser, path: Path | RunFile) -> Log:
    """Parse the log file at `path`; return an empty log if it does not exist or its name is too long to exist."""
    checked, collector, reader = as_checked(parser), Collector(path), LineReader()
    try:
        checked.read(collector.numbered(_lines(path, (), reader, checked)), collector.add)
    except OSError as error:
        if error.errno in MISSING:
            return Log()
        raise
    return _closed(checked, collector, reader.long_lines)


def collect_run(parser: LogParser, run: Run) -> Log:
    """Parse the log of a run, if it exists, and the sources in its folder that the parser declares."""
    checked, collector, reader = as_checked(parser), Collector(run.log_file), LineReader()
    if not run.log_file.exists() and not checked.sources:
        return Log()
    sources, reads = SourceFiles(run.path, checked), arrivals.reads_of(run)
    problems: list[str] = []
    try:
        lines = _lines(run.log_file, reads.get(arrivals.LOG, ()), reader, checked)
        checked.read(collector.numbered(lines), collector.add)
    except FileNotFoundError:
        pass
    except OSError as error:
        problems.append(f"{run.log_file.name}: cannot be read: {error.strerror}")
    sources.read_all(partial(collector.add, ordered=False), reads)
    return _closed(checked, collector, reader.long_lines, (*problems, *sources.faults()))


def collect_source(parser: LogParser, path: Path | RunFile, kind: str) -> Log:
    """Parse one file of a source by itself."""
    checked, collector = as_checked(parser), Collector()
    file = SourceFile(path, path.name, kind, checked)
    checked.over_ranks.expect(file.rank)
    file.read_again(checked, collector.add, ())
    file.close(checked, collector.add)
    return _closed(checked, collector, notes=file.faults())


def _closed(checked: CheckedParser, collector: Collector, long_lines: int = 0, notes: Iterable[str] = ()) -> Log:
    """The log after everything was read."""
    for record in checked.close():
        collector.add(record, ordered=False)
    damage = Damage(long_lines=long_lines, numbers=checked.odd_count, examples=tuple(checked.odd))
    log: Log = collector.log().replace(damage=damage, notes=(*notes, *checked.faults))
    return _with_covers(log, checked) if checked.prints is not None and checked.prints.interval_means else log


def _with_covers(log: Log, checked: CheckedParser) -> Log:
    """The log with the number of steps that each printed mean covers."""
    loaded = [event.facts.get("iteration") for event in log.events if event.kind == "checkpoint_loaded"]
    begun = begun_after((number for number in loaded if isinstance(number, int)), checked.first_step, log.steps)
    counted: Log = log.replace(steps=with_covers(log.steps, begun))
    return counted


Numbered = Iterator[tuple[int, Line]]


def _lines(path: Path | RunFile, reads: Reads, reader: LineReader, parser: CheckedParser) -> Numbered:
    """The lines of a log that matter, with the times at which it was read while it grew. Raises `OSError`."""
    return chain.from_iterable(_blocks(path, reads, reader, parser))  # each line passes one generator less


def _blocks(path: Path | RunFile, reads: Reads, reader: LineReader, parser: CheckedParser) -> Iterator[Numbered]:
    skimmer = Skimmer(parser)
    for chunk, at in pieces(path, reads, BLOCK):
        yield skimmer.lines(reader.block(chunk), at, path.name)
    yield skimmer.lines(reader.last_block(), None, path.name)
