"""Survive failures of a scheduler's commands while a run is followed."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import InfraError, Unreachable
from ..model import JobStatus
from ..phrases import duration

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
