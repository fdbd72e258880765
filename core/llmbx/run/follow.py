"""Follow a started run through its files: report steps as they appear until the job has ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..clock import SteadyClock
from ..errors import InfraError
from ..logs.lines import LineReader, as_lines
from ..logs.restarts import RESTARTED
from ..logs.source_files import SourceFiles
from ..model import Event, JobStatus, Step
from ..plugins.log_parser import as_checked
from ..record import arrivals, first_step
from ..record.folder import owns
from ..record.masking import Growing, Masker
from ..run_files import RunFile, run_file
from .waiting import Outage, give_up

if TYPE_CHECKING:
    from ..launchers.base import Launcher
    from ..logs.parser import LogParser
    from ..record.folder import Run

POLL_S = 0.2
REMOTE_S = 2.0
SOURCES_S = 1.0
STACK_GRACE_S = 3.0
SOON_S = 2.0
"""A first look at the log within these seconds after the submission is a look like all others: there was no log before.
"""


class Sink(Protocol):
    """Receives the progress of a run."""

    def step(self, step: Step) -> None:
        """Called for a step; may be called again for the same step with more members."""

    def event(self, event: Event) -> None:
        """Called for a log event that is not a step."""

    def status(self, status: JobStatus) -> None:
        """Called with the job's status, about once a second."""


class Masked:
    """Overwrites the secrets in the growing logs of a run of this user.

    Logs that other machines write (`elsewhere`) are looked for each `REMOTE_S` seconds: their file system is slower.
    """

    def __init__(self, run: Run, elsewhere: bool) -> None:
        self._folder, self._log, self._elsewhere = run.files, run.log_file, elsewhere
        self._masker = Masker(os.environ)
        self._files: dict[Path | RunFile, Growing] = {}
        self._next = 0.0

    def advance(self) -> None:
        """Mask what was written since the last call."""
        now = time.monotonic()
        if self._elsewhere and now < self._next:
            return
        self._next = now + REMOTE_S
        self.mask((self._log, *self._folder.glob("rank-*.log"), *self._folder.glob("*.out")))

    def mask(self, paths: Iterable[Path | RunFile]) -> None:
        """Mask what was written to these files since the last call."""
        for path in paths:
            if path not in self._files:
                self._files[path] = Growing(path, self._masker, self._elsewhere)
            self._files[path].advance()


class Follower:
    """Reads a growing log with the framework's parser; `parser` makes a new one whenever the log file is replaced."""

    def __init__(
        self, log: Path | RunFile, parser: Callable[[], LogParser], sink: Sink, first: Callable[[float], None],
        masked: Masked | None = None, sources_s: float = SOURCES_S, submitted: float | None = None,
    ) -> None:  # fmt: skip
        """`first` is called with the time of the first step (epoch seconds), unless the first read already had it, and
        was not made soon after the job was `submitted`.

        `masked` overwrites the secrets in the logs before each read. The format's other files are read every
        `sources_s` seconds.
        """
        self.sources_s = sources_s
        self.log = run_file(log)
        self.make_parser = parser
        self.sink = sink
        self.note_first = first
        self.masked = masked
        self.submitted = submitted
        self.file: tuple[int, int] | None = None
        self.clock = SteadyClock()
        self.clock_set: list[arrivals.Setting] = []
        self._problem = ""
        self._begin()

    def _begin(self) -> None:
        self.parser = as_checked(self.make_parser())
        self.lines = LineReader()
        self.offset = 0
        self.last_growth = time.monotonic()
        self._first: Callable[[float], None] | None = self.note_first
        self._was_read = False
        self._newest: int | None = None
        self.arrivals: list[arrivals.Arrival] = []
        self._read_at = self.clock.now()
        self.reads: list[arrivals.Read] = []
        self._sources = SourceFiles(self.log.folder, self.parser)
        self._sources_at = 0.0

    def read(self) -> None:
        """Read new lines if the log exists. A new file in its place belongs to another attempt."""
        newest_before, before, self._read_at = self._newest, self._read_at, self.clock.now()
        arrivals.add_setting(self.clock_set, self._read_at, self.clock.set_by())
        if self.masked is not None:
            self.masked.advance()
        self._read()
        before = min(before, self._read_sources())
        if self._was_read and self._newest is not None and self._newest != newest_before:
            now = self.clock.now()
            arrivals.add(self.arrivals, self._newest, now, max(0.0, now - before))
        self._was_read = True

    def _read_sources(self, final: bool = False) -> float:
        """Read the other files if it is time to; return when they were read before (now, if they are not read)."""
        now, before = self.clock.now(), self._sources_at
        if not self.parser.sources or (now - before < self.sources_s and not final):
            return now
        self._sources_at = now
        records: list[Step | Event] = []
        if self.masked is not None:
            self.masked.mask(self._sources.text_files())
        if self._sources.advance(records.append, self.clock.now() if self._was_read else None):
            self.last_growth = time.monotonic()
        if final:
            self._sources.close(records.append)
        for record in records:
            if isinstance(record, Event) or self._newest is None or record.number > self._newest:
                self._report(record)  # each rank has every step
        return before or now

    @property
    def all_reads(self) -> dict[str, list[arrivals.Read]]:
        """When the text files were read, for formats that use the times of their lines."""
        return {**({arrivals.LOG: self.reads} if self.reads else {}), **self._sources.reads()}

    def _read(self) -> None:
        try:
            with self.log.open() as file:
                status = os.fstat(file.fileno())
                earlier_file, self.file = self.file, (status.st_dev, status.st_ino)
                if earlier_file not in (None, self.file):
                    self._begin()
                    self.sink.event(Event(kind=RESTARTED, text="the job was restarted"))
                file.seek(self.offset)
                while chunk := file.read(1 << 20):
                    self.offset += len(chunk)
                    self.last_growth = time.monotonic()
                    self._feed(self.lines.feed(chunk))
                    arrivals.add_read(self.reads, self.offset, self._arrived)
        except FileNotFoundError:
            return
        except OSError as error:
            self._refuse(error)

    def _refuse(self, error: OSError) -> None:
        """Report once that the log cannot be read: the job may have put something else in its place."""
        problem = f"{self.log.name}: cannot be read: {error.strerror}"
        if problem != self._problem:
            self._problem = problem
            self.sink.event(Event(kind="note", text=problem))

    def close(self) -> None:
        """Read the rest, including an unfinished last line."""
        self.read()
        self._feed(self.lines.close())
        self._read_sources(final=True)
        records = self.parser.close()
        for record in records:
            self._report(record)

    def _feed(self, lines: list[str]) -> None:
        records: list[Step | Event] = []
        self.parser.read(as_lines(lines, self._arrived, self.log.name), records.append)
        for record in records:
            self._report(record)

    @property
    def _arrived(self) -> float | None:
        """The time of this read; None for the first one, as what it finds was written at any time before."""
        return self._read_at if self._was_read else None

    def _is_soon(self) -> bool:
        return self.submitted is not None and 0 <= self.clock.now() - self.submitted <= SOON_S

    def _report(self, record: Step | Event) -> None:
        if isinstance(record, Step):
            if self._first and (self._was_read or self._is_soon()):
                self._first(self.clock.now())
            self._first = None
            self._newest = record.number if self._newest is None else max(self._newest, record.number)
            self.sink.step(record)
        else:
            self.sink.event(record)


def follow(
    run: Run,
    launcher: Launcher,
    parser: Callable[[], LogParser],
    sink: Sink,
    *,
    deadline_s: float | None = None,
    now: Callable[[], float] = time.monotonic,
) -> JobStatus:
    """Follow a run until its job has ended; return the final status. `parser` makes a parser for its log.

    A job that can never start, or that waits in the queue for too long, is cancelled. Failures of the scheduler's
    commands are survived for the launcher's `outage_limit`; then `Unreachable` is raised, and the job continues.
    If the log does not grow for the spec's `stall_timeout_s` seconds, the ranks' stacks are dumped into it and the job
    is cancelled. A run that takes longer than `deadline_s` seconds is cancelled too, without a stack dump.
    KeyboardInterrupt is left to the caller. A run of another user is only watched.
    """
    assert run.record.job is not None
    own = owns(run)
    masked, first = (Masked(run, elsewhere=launcher.remote), partial(first_step.note, run)) if own else (None, _ignore)
    job, sources_s = run.record.job, REMOTE_S if launcher.remote else SOURCES_S
    follower = Follower(run.log_file, parser, sink, first, masked, sources_s, job.submitted)
    start = polled = now()
    follower.read()  # a fast job may have its first step while its launcher is asked for its status
    outage = Outage(launcher.outage_limit(run.record.spec), lambda text: sink.event(Event(kind="note", text=text)), now)
    ask = partial(outage.ask, partial(launcher.status, job, run.path))
    status, overdue = ask(), None
    while status.state in ("pending", "running"):
        follower.read()
        if own and overdue is None:
            overdue = _overdue(run, status, follower, now() - start, deadline_s)
            if overdue is not None and _stop(run, launcher, overdue, outage, first=True):
                break
        time.sleep(POLL_S)
        if now() - polled >= launcher.poll_s:
            status, polled = ask(), now()
            sink.status(status)
            if own and not outage.lasts:
                status = give_up(run, launcher, status) or status
            if overdue is not None and _stop(run, launcher, overdue, outage):
                break
    else:
        overdue = None  # it has ended by itself
    follower.close()
    if own:
        arrivals.note(run, follower.arrivals, follower.all_reads, follower.clock_set)
    return status if overdue is None else _as_stopped(overdue, ask())


def _ignore(at: float) -> None:
    """Note nothing in the folder of another user."""


def _overdue(
    run: Run, status: JobStatus, follower: Follower, elapsed_s: float, deadline_s: float | None
) -> JobStatus | None:
    stall = run.record.spec.stall_timeout_s
    if status.state == "running" and stall and time.monotonic() - follower.last_growth > stall:
        reason = f"stalled: nothing was logged for {stall:g} s; the ranks' stacks are at the end of the log"
        return JobStatus(state="ended", reason=reason, verdict="stalled", started=status.started, ended=time.time())
    if deadline_s and elapsed_s > deadline_s:
        reason = f"the time limit of {deadline_s / 60:g} minutes was reached"
        return JobStatus(state="ended", reason=reason, verdict="timeout", started=status.started, ended=time.time())
    return None


def _stop(run: Run, launcher: Launcher, ended: JobStatus, outage: Outage, first: bool = False) -> bool:
    """Cancel a run that has stalled or taken too long; False if that fails, and is to be tried again.

    The ranks' stacks are dumped the `first` time.
    """
    assert run.record.job is not None
    try:
        if first and ended.verdict == "stalled":
            dump_stacks(run, launcher)
        launcher.cancel(run.record.job, run.path)
    except InfraError as error:
        outage.failed(error)
        return False
    return True


def dump_stacks(run: Run, launcher: Launcher) -> None:
    """Make every rank write its stacks to the log, and wait until they have."""
    assert run.record.job is not None
    launcher.dump_stacks(run.record.job, run.path)
    time.sleep(STACK_GRACE_S)


def _as_stopped(ended: JobStatus, final: JobStatus) -> JobStatus:
    """The final status of a run that was cancelled for this reason."""
    return ended.replace(exit_code=final.exit_code, started=final.started or ended.started, since_boot=final.since_boot)
