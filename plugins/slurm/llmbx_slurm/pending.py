"""The status of pending jobs: waiting, or never able to start."""

from __future__ import annotations

import time
from collections.abc import Callable

from llmbx.api import Job, JobStatus

from . import reasons
from .commands import call
from .state import SlurmState

NEVER_S = 10.0
"""A job can never start if its reason has said so for this many seconds: limits are changed while jobs wait."""


class Pending:
    """The reasons of the pending jobs that this process watches, and since when each has its own."""

    def __init__(self, command: Callable[..., str] = call, now: Callable[[], float] = time.monotonic) -> None:
        self._call, self._now = command, now
        self._first_seen: dict[str, tuple[str, float, str | None]] = {}

    def status(self, job: Job, state: SlurmState) -> JobStatus:
        """The status of a pending job; its verdict is `not_started` if it can never start."""
        code = reasons.code_of(state.reason)
        first_seen = self._first_seen.get(job.job_id)
        if first_seen is None or first_seen[0] != code:
            first_seen = self._first_seen[job.job_id] = (code, self._now(), self._why(job, code))
        _, since, why = first_seen
        if why is None:
            name = state.name.lower()
            reason = f"{name}: {state.reason}" if state.reason else name
            return JobStatus(state="pending", reason=reason, expected_start=state.started)
        verdict = "not_started" if self._now() - since >= NEVER_S else None
        return JobStatus(state="pending", reason=f"it can never start ({state.reason}): {why}", verdict=verdict)

    def is_new(self, job: Job) -> bool:
        """Whether a reason with which the job can never start was first seen less than `NEVER_S` seconds ago."""
        _, since, why = self._first_seen.get(job.job_id, ("", 0.0, None))
        return why is not None and self._now() - since < NEVER_S

    def why_cancelled(self, job: Job, state: SlurmState) -> str | None:
        """Why a job that was cancelled while it was pending could never have started; None if it could.

        squeue keeps the last reason of a cancelled job, accounting does not; then the one that this process saw counts.
        """
        code, _, why = self._first_seen.get(job.job_id, ("", 0.0, None))
        now = reasons.code_of(state.reason)
        if now and now != "by":
            code, why = now, why if now == code else self._why(job, now)
        return why and f"it can never start ({code}): {why}"

    def _why(self, job: Job, code: str) -> str | None:
        number, _, cluster = job.job_id.partition(";")
        options = (f"--clusters={cluster}",) if cluster else ()
        if code == reasons.NODES:
            return reasons.too_many_nodes(options, number, self._call)
        why = reasons.why_never(code)
        if why is None or code in reasons.OF_THE_JOB or reasons.has_one_partition(options, number, self._call):
            return why
        return None  # the reason is that of one partition: the job may start in another
