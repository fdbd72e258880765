"""A run that was started, and how it stands."""

from __future__ import annotations

from typing import Literal

from .base import Value

JobState = Literal["pending", "running", "ended", "lost"]


class Job(Value, frozen=True):
    """A run that was started."""

    launcher: str
    """The launcher that has it."""
    job_id: str
    """Its id, by which the launcher finds it from another process; always a string."""
    submitted: float
    """When it was started, in epoch seconds."""
    process: str | None = None
    """The run's own script, where the job is an allocation that was there before it."""


class JobStatus(Value, frozen=True):
    """How a job stands."""

    state: JobState
    """pending (it waits), running, ended, or lost (it is gone and nobody knows how it ended)."""
    exit_code: int | None = None
    """Known once it has ended; 0 is a success, 128 + N the end by signal N."""
    reason: str = ""
    """The launcher's own word, told to the user as the cause where the log has no better one."""
    rank: int | None = None
    """The rank that failed first."""
    node: str | None = None
    """The node that failed first; another attempt leaves it out."""
    phase: str | None = None
    """The role of the phase that failed."""
    started: float | None = None
    """When the ranks started, in epoch seconds."""
    ended: float | None = None
    """When they ended, in epoch seconds."""
    verdict: str | None = None
    """What the launcher knows for sure: timeout, node_fail, preempted, out_of_memory, cancelled."""


class Owner(Value, frozen=True):
    """The llmbx process that prepares a run: a process id with its start time (epoch seconds) on one host."""

    pid: int
    started: float
    host: str


class RunGroup(Value, frozen=True):
    """Runs that belong together, a sweep's for example."""

    folders: tuple[str, ...]
    """The run folders, oldest first."""
    notes: tuple[str, ...] = ()
    """What a reader must know of them: runs that are missing, or left out."""
