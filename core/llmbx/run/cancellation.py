"""Note who cancelled a run, and why: its launcher may only know that the job was cancelled, or lose it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..errors import InfraError
from ..model import JobStatus
from ..run_files import RunFolder

MARK = "cancelled"
"""Empty file in the folder of a run that its user cancelled; it goes with the attempt."""

WHY = "not_started"
"""File with the reason for which llmbx cancelled a pending job; also the verdict of such a job."""


@contextmanager
def noted(folder: RunFolder) -> Iterator[None]:
    """Note that the run is cancelled inside, unless that fails."""
    folder.write(MARK, b"")
    try:
        yield
    except BaseException:
        with suppress(OSError):
            folder.remove(MARK)
        raise


def note_not_started(folder: RunFolder, reason: str) -> None:
    """Note why a pending job was cancelled."""
    with suppress(OSError):
        folder.write(WHY, reason)


def as_cancelled(folder: RunFolder, status: JobStatus) -> JobStatus:
    """The status of a run that its user or llmbx cancelled, if its job is lost or never started; else as it is."""
    never = status.verdict == WHY or (status.verdict == "cancelled" and status.started is None)
    if status.state != "lost" and not never:
        return status
    if folder.file(MARK).exists() and status.verdict != "cancelled":
        return _changed(status, None, "cancelled", "cancelled by llmbx cancel")
    if status.started is None and (reason := _why(folder)):
        return _changed(status, InfraError.exit_code, WHY, reason)
    return status


def _changed(status: JobStatus, code: int | None, verdict: str, reason: str) -> JobStatus:
    changed: JobStatus = status.replace(state="ended", exit_code=code, verdict=verdict, reason=reason)
    return changed


def _why(folder: RunFolder) -> str:
    try:
        return folder.read(WHY).decode(errors="replace")
    except OSError:
        return ""
