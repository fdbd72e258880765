"""Read what a run's script reports of its start (a line in its output) and of its end (`exit.json`)."""

from __future__ import annotations

import contextlib
import re
import signal
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..codec import decode
from ..model.job import JobStatus, SinceBoot
from ..model.run_folder import EXIT, batch_name
from ..run_files import RunFile, RunFolder
from ..toml_file import NOT_JSON
from .supervisor import ORPHANED

if TYPE_CHECKING:
    from ..model import RunSpec

_START = re.compile(rb"(\d{4}-\S{10,40}) llmbx: starts as (\S{1,200}) on (\S{0,255})")


class PhaseTime(msgspec.Struct, frozen=True):
    """Times of one phase that succeeded or was skipped; epoch seconds."""

    role: str
    skipped: bool
    started: float
    ended: float


class Exit(msgspec.Struct, frozen=True):
    """The content of `exit.json`: `exit_code`, `job_id` and `host` of the script.

    It `started` and `ended` at these epoch seconds, `since_boot` has both by a clock that is never set. `phases` are
    those that succeeded or were skipped.

    `phase`, `rank` and `node` are those that failed first. `signal` is the signal that stopped the script from outside
    (TERM, INT, HUP), `reason` why it stopped by itself, `oom_kills` the number of processes that the kernel of `host`
    killed because of memory.
    """

    exit_code: int
    started: float
    ended: float
    job_id: str
    host: str
    phase: str | None = None
    rank: int | None = None
    node: str | None = None
    signal: str | None = None
    reason: str | None = None
    oom_kills: int | None = None
    phases: tuple[PhaseTime, ...] = ()
    since_boot: SinceBoot | None = None

    @property
    def out_of_memory(self) -> bool:
        """Whether the first failed rank was probably killed by the kernel because of memory."""
        return self.exit_code == 128 + signal.SIGKILL and bool(self.oom_kills)

    @staticmethod
    def read(run_dir: Path) -> Exit | None:
        """Read `exit.json`; None if it does not exist or cannot be read (for example after a full disk)."""
        return read_exit(run_dir)

    def status(self) -> JobStatus:
        """Return the status of the job whose script wrote it."""
        return JobStatus(
            state="ended",
            exit_code=self.exit_code,
            reason=_reason(self),
            rank=self.rank,
            node=self.node,
            phase=self.phase,
            started=self.started,
            ended=self.ended,
            since_boot=self.since_boot,
            verdict="cancelled" if self.signal else "out_of_memory" if self.out_of_memory else None,
        )


def read_exit(run_dir: Path) -> Exit | None:
    """Read `exit.json`; None if it does not exist or cannot be read (for example after a full disk)."""
    folder = RunFolder(path=run_dir)
    try:
        end = decode(folder.read(EXIT), Exit)
    except (OSError, *NOT_JSON):
        return None
    if end.signal and folder.file(ORPHANED).exists():
        return msgspec.structs.replace(end, reason="the llmbx that attended the run was killed, which ended the run")
    return end


class Start(msgspec.Struct, frozen=True):
    """The start of a script: job id (the scheduler's, or its process id), host and time (epoch seconds)."""

    job_id: str
    host: str
    at: float


def read_start(run_dir: Path, spec: RunSpec) -> Start | None:
    """Read the latest start line in the script's output; None if it has not started."""
    starts = read_starts(RunFolder(path=run_dir).file(batch_name(spec)))
    return starts[-1] if starts else None


def read_starts(output: RunFile) -> list[Start]:
    """Read every start line in a script's output, in order; several if the scheduler requeued the job."""
    starts: list[Start] = []
    try:
        for line in output.lines():
            if match := _START.fullmatch(line):
                time, job_id, host = (part.decode(errors="replace") for part in match.groups())
                with contextlib.suppress(ValueError, OverflowError):
                    starts.append(Start(job_id=job_id, host=host, at=datetime.fromisoformat(time).timestamp()))
    except OSError:
        return []
    return starts


def forget_exit(run_dir: Path) -> None:
    """Remove an earlier `exit.json`, so that it is not taken for the next job's."""
    RunFolder(path=run_dir).remove(EXIT)


def _reason(end: Exit) -> str:
    if end.signal:
        return end.reason or f"stopped by SIG{end.signal}"
    if end.out_of_memory:
        return f"the kernel killed {end.oom_kills} process(es) because of memory"
    return end.reason or (f"on node {end.node}" if end.node else "")
