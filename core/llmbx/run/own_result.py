"""Tell the result that llmbx wrote from one that the job itself left in the run folder, which is its working folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ..errors import LlmbxError
from ..launchers.script import EXIT
from ..model import Result
from ..record.folder import RESULT, read_result

LEFT = "result.job.json"
"""Name that a result of the job gets."""


def own_result(folder: Path) -> Result | None:
    """The result that llmbx wrote; None if there is none yet. A result that the job wrote is renamed to `LEFT`.

    llmbx writes the result of a completed job after the job's script has written its exit code. What is there before
    was written by the job, or copied. Raises `LlmbxError` if the result cannot be read and is not the job's.
    """
    try:
        known = read_result(folder)
    except LlmbxError:
        if not _before_the_end(folder):
            raise
        known = None
    else:
        if known is None or known.status != "completed" or not _before_the_end(folder):
            return known
    with suppress(OSError):  # another process was faster
        (folder / RESULT).replace(folder / LEFT)
    return None


def left_result(folder: Path) -> tuple[str, ...]:
    """The warning about a result that the job left."""
    if not (folder / LEFT).is_file():
        return ()
    return (f"the job wrote a {RESULT} of its own, which was not used; it is now {LEFT}",)


def _before_the_end(folder: Path) -> bool:
    """Whether the result is older than the exit code of the job's script."""
    try:
        return (folder / RESULT).stat().st_mtime_ns < (folder / EXIT).stat().st_mtime_ns
    except OSError:
        return False
