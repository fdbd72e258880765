"""A run that was started, and how it stands."""

from __future__ import annotations

from typing import Literal

from .base import Value

JobState = Literal["pending", "running", "ended", "lost"]


class Job(Value, frozen=True):
    """A started run: which launcher has it, under which id (always a string), and since when (epoch seconds).

    `process` is the run's own script where the job is an allocation that was there before it.
    """

    launcher: str
    job_id: str
    submitted: float
    process: str | None = None


class JobStatus(Value, frozen=True):
    """How a job stands. `exit_code` is known once it has ended; `reason` is the launcher's own word.

    `rank`, `node` and `phase` are those that failed first, `started` and `ended` epoch seconds of the ranks, where
    known.
    """

    state: JobState
    exit_code: int | None = None
    reason: str = ""
    rank: int | None = None
    node: str | None = None
    phase: str | None = None
    started: float | None = None
    ended: float | None = None
    verdict: str | None = None
    """What the launcher knows for sure: timeout, node_fail, preempted, out_of_memory, cancelled."""


class Owner(Value, frozen=True):
    """The llmbx process that prepares a run: a process id with its start time (epoch seconds) on one host."""

    pid: int
    started: float
    host: str
