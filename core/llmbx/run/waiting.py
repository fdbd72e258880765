"""Wait for a scheduler: bear failures of its commands, and give up a job that waits too long or can never start."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ..clock import age_s
from ..errors import InfraError, Unreachable
from ..model import Job, JobStatus
from ..phrases import duration
from .cancellation import note_not_started

if TYPE_CHECKING:
    from ..launchers.base import Launcher
    from ..record.folder import Run

NEVER = "not_started"
"""Verdict of a pending job that can never start, and of one that was given up."""

SETTLE_S = 10.0
"""A scheduler may take this many seconds to report that a job was cancelled."""


def give_up(run: Run, launcher: Launcher, status: JobStatus) -> JobStatus | None:
    """Cancel a pending job if it can never start or has waited for longer than allowed; return its final status.

    The launcher says that a job can never start with the verdict `not_started`, and how long a job may wait with its
    method `queue_limit`. None if the job keeps waiting, has started in the meantime, or cannot be cancelled now. The
    exit code is 4: the job failed because of the scheduler.
    """
    job = run.record.job
    if status.state != "pending" or job is None:
        return None
    reason = _why(run, job, launcher, status)
    if reason is None:
        return None
    try:
        launcher.cancel_pending(job, run.path)
        note_not_started(run.files, reason)  # the scheduler may take longer to report it
        after = _settled(run, job, launcher)
    except InfraError:  # it is tried again with the next status
        return None
    if after is None or after.state in ("pending", "running") or after.started is not None:
        return None  # it has started in the meantime: what it did counts
    return JobStatus(
        state="ended", exit_code=InfraError.exit_code, verdict=NEVER, reason=reason, ended=after.ended or time.time()
    )


def _why(run: Run, job: Job, launcher: Launcher, status: JobStatus) -> str | None:
    if status.verdict == NEVER:
        return f"job {job.job_id} was cancelled: {status.reason}"
    limit = launcher.queue_limit(run.record.spec)
    if limit is None:
        return None
    seconds, origin = limit
    # A job that was requeued waits again; its output is from before.
    last_output = run.files.last_written("*.out") or 0.0
    waited = age_s(max(job.submitted, last_output), f"{run.folder} in the queue")
    if waited < seconds:
        return None
    return f"job {job.job_id} was cancelled: it waited {duration(waited)} in the queue ({status.reason}); {origin}"


def _settled(run: Run, job: Job, launcher: Launcher) -> JobStatus | None:
    """The status as soon as the job is not pending any more, or after `SETTLE_S` seconds; None if it is not known."""
    until, status = time.monotonic() + SETTLE_S, None
    while True:
        with suppress(InfraError):  # the cancellation was accepted: its reason must not be lost to one query
            status = launcher.status(job, run.path)
            if status.state != "pending":
                return status
        if time.monotonic() >= until:
            return status
        time.sleep(launcher.poll_s / 4)


REPEAT_S = 600.0
"""A scheduler that fails and answers in turn is reported once in this many seconds."""


class Outage:
    """Asks a scheduler, and bears its failures for `limit`: seconds, and where they are set (None: for ever).

    `say` reports the beginning of an outage, `now` is a clock in seconds. No failure of a scheduler's command ends a
    job: it may be the command, this machine or the network that failed.
    """

    def __init__(self, limit: tuple[float, str] | None, say: Callable[[str], None], now: Callable[[], float]) -> None:
        self._limit, self._say, self._now = limit, say, now
        self._since: float | None = None
        self._said_at = float("-inf")
        self._last = JobStatus(state="pending", reason="unknown")

    def ask(self, status: Callable[[], JobStatus]) -> JobStatus:
        """Return the status; the last known one during an outage. Raises `Unreachable` as `failed` does."""
        try:
            self._last = status()
        except InfraError as error:
            self.failed(error)
            last = self._last
            seen = f"last seen {last.reason or last.state}" if last.reason != "unknown" else "its state is unknown"
            waiting: JobStatus = last.replace(reason=f"the scheduler does not answer; {seen}", verdict=None)
            return waiting
        self._since = None
        return self._last

    @property
    def lasts(self) -> bool:
        """Whether the last request failed."""
        return self._since is not None

    def failed(self, error: InfraError) -> None:
        """Report the first failure of an outage. Raises `Unreachable` when it has lasted for the limit."""
        now = self._now()
        self._since = now if self._since is None else self._since
        lasted = now - self._since
        if self._limit is not None and lasted >= self._limit[0]:
            why = f"; {self._limit[1]}" if self._limit[1] else ""
            raise Unreachable(f"the scheduler has not answered for {duration(lasted)}: {error}{why}") from error
        if lasted == 0 and now - self._said_at >= REPEAT_S:
            self._said_at = now
            most = f" for up to {duration(self._limit[0])}" if self._limit else ""
            self._say(f"{error}; the job continues, and llmbx tries again{most}")
