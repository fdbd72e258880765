"""Refresh unfinished runs: update their state, finalize those that have ended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..config.install import Install
from ..errors import LlmbxError, PluginError
from ..plugins.calls import describe_error
from ..record.folder import Run, read_result, read_run, read_steps
from .read import UNKNOWN
from .scan import OPEN_RUNS, read_now, write

if TYPE_CHECKING:
    import sqlite3

    from ..model import Result
    from ..plugins.manager import Plugins


HAS_ENDED = "has ended ("
"""Begins the reason of a run of another user that has ended, and whose result is not recorded yet."""

UNFINISHED = f"{OPEN_RUNS} AND NOT (status = '{UNKNOWN}' AND cause IS NOT NULL AND cause LIKE '{HAS_ENDED}%')"
"""SQL condition for the runs to query: what another user's run that has ended computed once is in the index until its
folder changes.
"""


def refresh_result(run: Run, plugins: Plugins, window: str | None = None) -> Result | None:
    """The run's result, finalized now if the run has just ended; None while it is unfinished.

    That of another user's run is only computed. With `window` it has the metrics of that window; then it raises
    `UsageError` if the file with the steps is gone.
    """
    from ..run.finalize import finalize
    from .remeasure import rewindowed

    result = finalize(run, plugins)
    if result is None or window is None:
        return result
    return rewindowed(run, result, read_steps(run.path), plugins, window)


def current_status(run: Run, plugins: Plugins) -> tuple[str, str | None]:
    """Status of an unfinished run and the reason; a run that has ended is finalized and has its result's status."""
    from ..run.assess import owns
    from ..run.finalize import finalize, job_status

    try:
        if read_result(run.path) is None:
            status = job_status(run, plugins)
            if status.state in ("pending", "running"):
                return status.state, status.reason or None
        result = finalize(run, plugins)
        if result is not None and read_result(run.path) is None and not owns(run):
            return UNKNOWN, f"{HAS_ENDED}{result.status}); the next command of {run.files.owner} records it"
        return (result.status, result.cause) if result else ("running", None)
    except Exception as error:
        # Its plugin is not installed here, or fails: one run must not prevent the others from being listed.
        return UNKNOWN, describe_error(error)


def refresh_all(db: sqlite3.Connection, install: Install, plugins: Plugins) -> None:
    """Update every unfinished run, in its folder and in the index."""
    rows = db.execute(f"SELECT folder, path FROM runs WHERE {UNFINISHED}").fetchall()
    updated = []
    for folder, path, run in _watched(rows, install, plugins):
        status, reason = current_status(run, plugins)
        seen = read_now(install, path, folder)
        if seen.values is not None and seen.values["status"] == UNKNOWN:
            seen.values.update(status=status, cause=reason)
        updated.append(seen)
    if updated:
        write(db, install, updated, {})


def _watched(rows: list[tuple[str, str]], install: Install, plugins: Plugins) -> list[tuple[str, str, Run]]:
    """The runs of these rows, after announcing their jobs to the launchers, so that these can query all at once."""
    runs = []
    for folder, path in rows:
        try:
            runs.append((folder, path, read_run(install.path / folder)))
        except LlmbxError:
            continue
    jobs = [run.record.job for _, _, run in runs if run.record.job is not None]
    for name, launcher in plugins.launchers().items():
        with contextlib.suppress(PluginError):  # the error is reported when the launcher is queried for each job
            launcher.watch([job for job in jobs if job.launcher == name])
    return runs


def open_runs(db: sqlite3.Connection) -> int:
    """The number of unfinished runs."""
    number: int = db.execute(f"SELECT count(*) FROM runs WHERE {UNFINISHED}").fetchone()[0]
    return number
