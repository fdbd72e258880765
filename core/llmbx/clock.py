"""Times that stay right when the wall clock of the machine is set, by NTP or by hand."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import JobStatus

TOLERANCE_S = 2.0
"""Tolerance for the order of two times in seconds: schedulers report whole seconds, and clocks of machines differ by
less.
"""

_UPTIME, _BOOT = Path("/proc/uptime"), Path("/proc/sys/kernel/random/boot_id")


class SteadyClock:
    """The wall clock as it was when this object was made, carried on by the monotonic clock (epoch seconds)."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """The time; differences of two are never changed by setting the wall clock."""
        return time.monotonic() + self._offset

    def set_by(self) -> float:
        """Seconds by which the wall clock was set since; the monotonic clock stands still while a machine sleeps."""
        return time.time() - self.now()


def age_s(since: float, of: str) -> float:
    """Seconds since the wall clock showed `since`. Setting it after the first call with these arguments has no effect.

    `since` may be from another process or machine, for example the time of a file, so that no other clock has it. `of`
    names what is that old.
    """
    return _first_asked(since, of).now() - since


@functools.lru_cache(maxsize=4096)
def _first_asked(since: float, of: str) -> SteadyClock:
    return SteadyClock()


def elapsed(begun: float | None, done: float | None) -> float | None:
    """Seconds between two clock times; None if one is unknown or the clock was set back in between.

    Times of different machines, or in whole seconds, may be out of order by `TOLERANCE_S`: the result is then 0.
    """
    if begun is None or done is None or done < begun - TOLERANCE_S:
        return None
    return max(0.0, done - begun)


def lasted_s(status: JobStatus) -> float | None:
    """Seconds from the start to the end of a job's ranks, by the clock that cannot be set if the job recorded it."""
    if status.since_boot is not None:
        return elapsed(status.since_boot.started, status.since_boot.ended)
    return elapsed(status.started, status.ended)


def set_during(status: JobStatus) -> float:
    """Seconds by which the wall clock was set during the job, as far as that is known."""
    if status.since_boot is None or status.started is None or status.ended is None:
        return 0.0
    return status.ended - status.started - (status.since_boot.ended - status.since_boot.started)


def since_boot_s() -> float | None:
    """Seconds since this machine was started; None if it does not say."""
    try:
        return float(_UPTIME.read_text(encoding="utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return None


@functools.cache
def boot_id() -> str:
    """What names the present start of this machine; empty if it has no such name."""
    try:
        return _BOOT.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
