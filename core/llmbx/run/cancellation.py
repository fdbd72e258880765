"""Note that a user cancelled a run: its launcher may lose a job that ended before it could write a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..files import disk_errors
from ..model import JobStatus

MARK = "cancelled"
"""Empty file in the folder of a run; it goes with the attempt that was cancelled."""


@contextmanager
def noted(run_dir: Path) -> Iterator[None]:
    """Note that the run is cancelled inside, unless that fails."""
    mark = run_dir / MARK
    with disk_errors(str(mark)):
        mark.touch()
    try:
        yield
    except BaseException:
        mark.unlink(missing_ok=True)
        raise


def as_cancelled(run_dir: Path, status: JobStatus) -> JobStatus:
    """The status of a run that was cancelled, if its job is lost; else the status as it is."""
    if status.state != "lost" or not (run_dir / MARK).exists():
        return status
    changed: JobStatus = status.replace(state="ended", verdict="cancelled", reason="cancelled by llmbx cancel")
    return changed
