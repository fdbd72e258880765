"""Note that a user cancelled a run: its launcher may lose a job that ended before it could write a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..model import JobStatus
from ..run_files import RunFolder

MARK = "cancelled"
"""Empty file in the folder of a run; it goes with the attempt that was cancelled."""


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


def as_cancelled(folder: RunFolder, status: JobStatus) -> JobStatus:
    """The status of a run that was cancelled, if its job is lost; else the status as it is."""
    if status.state != "lost" or not folder.file(MARK).exists():
        return status
    changed: JobStatus = status.replace(state="ended", verdict="cancelled", reason="cancelled by llmbx cancel")
    return changed
