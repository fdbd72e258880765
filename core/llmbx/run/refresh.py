"""The state of a run as it is now: what has ended is finalized first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model import Result
from ..plugins.calls import describe_error
from ..record.folder import Run, owns, read_result, read_steps
from .finalize import finalize, job_status
from .remeasure import rewindowed

if TYPE_CHECKING:
    from ..plugins.manager import Plugins

UNKNOWN = "unknown"
"""Status of a run without a result, whose state cannot be known here."""

HAS_ENDED = "has ended ("
"""Begins the reason of a run of another user that has ended, and whose result is not recorded yet."""


def refresh_result(run: Run, plugins: Plugins, window: str | None = None) -> Result | None:
    """The run's result, finalized now if the run has just ended; None while it is unfinished.

    That of another user's run is only computed. With `window` it has the metrics of that window;
    then it raises `UsageError` if the file with the steps is gone.
    """
    result = finalize(run, plugins)
    if result is None or window is None:
        return result
    return rewindowed(run, result, read_steps(run.path), plugins, window)


def current_status(run: Run, plugins: Plugins) -> tuple[str, str | None]:
    """Status of a run and the reason: that of its job, or of its result if it has ended.

    The status is "unknown" if its plugin fails or is missing, and for another user's ended run.
    """
    try:
        if read_result(run.path) is None:
            status = job_status(run, plugins)
            if status.state in ("pending", "running"):
                return status.state, status.reason or None
        result = finalize(run, plugins)
        if result is not None and read_result(run.path) is None and not owns(run):
            recorder = f"the next command of {run.files.owner} records it"
            return UNKNOWN, f"{HAS_ENDED}{result.status}); {recorder}"
        return (result.status, result.cause) if result else ("running", None)
    except Exception as error:
        # Its plugin is not installed here, or fails: other runs must still be listed.
        return UNKNOWN, describe_error(error)
