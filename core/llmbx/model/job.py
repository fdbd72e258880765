"""Started runs and their state."""

from __future__ import annotations

from typing import Literal

from .base import Value

JobState = Literal["pending", "running", "ended", "lost"]


class Job(Value, frozen=True):
    """A run that was started."""

    launcher: str
    """Name of the launcher that started it."""
    job_id: str
    """Id by which the launcher finds the job from another process; always a string."""
    submitted: float
    """Submission time in epoch seconds."""
    process: str | None = None
    """The run's own script, if the job is an existing allocation that the run was started in."""


class SinceBoot(Value, frozen=True):
    """When a job's ranks started and ended, in seconds since their machine was started: this clock is never set."""

    boot_id: str
    """The start of the machine that the seconds count from; empty if it has no name."""
    started: float
    """Start of the ranks."""
    ended: float
    """End of the ranks."""


class JobStatus(Value, frozen=True):
    """State of a job."""

    state: JobState
    """pending (in the queue), running, ended, or lost (gone without a known outcome)."""
    exit_code: int | None = None
    """Exit code of an ended job: 0 is success, 128 + N is termination by signal N."""
    reason: str = ""
    """The launcher's own explanation, reported as the cause if the log has no better one."""
    rank: int | None = None
    """The rank that failed first."""
    node: str | None = None
    """The node that failed first; a retry excludes it."""
    phase: str | None = None
    """Role of the phase that failed."""
    started: float | None = None
    """Start time of the ranks in epoch seconds."""
    ended: float | None = None
    """End time of the ranks in epoch seconds."""
    since_boot: SinceBoot | None = None
    """Both times by the clock that cannot be set, if the job's script recorded them."""
    expected_start: float | None = None
    """When the scheduler expects a pending job to start, in epoch seconds."""
    verdict: str | None = None
    """Outcome that the launcher itself reports: timeout, node_fail, preempted, out_of_memory, cancelled. A pending job
    that can never start as it was submitted has not_started (`reason` says why).
    """


class Owner(Value, frozen=True):
    """The llmbx process that prepares a run: its process id and start time (epoch seconds) on one host.

    `ticks` is the start in clock ticks since the boot `boot_id` of the host, where the system has them: the epoch
    seconds of a process change when the clock is set.
    """

    pid: int
    started: float
    host: str
    ticks: int | None = None
    boot_id: str = ""


class RunGroup(Value, frozen=True):
    """Runs that belong together, for example those of a sweep."""

    folders: tuple[str, ...]
    """Run folders, oldest first."""
    notes: tuple[str, ...] = ()
    """Remarks to show with the runs, such as which runs are missing or excluded."""
