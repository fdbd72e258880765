"""Runs that had not ended when they were last looked at: how they stand now, and their result once they have ended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..config.install import Install
from ..errors import LlmbxError, PluginError
from ..plugins.isolation import why
from ..record.folder import Run, read_result, read_run
from .read import UNKNOWN
from .scan import OPEN_RUNS, fresh, write

if TYPE_CHECKING:
    import sqlite3

    from ..model import Result
    from ..plugins.manager import Plugins


def settle(run: Run, plugins: Plugins) -> Result | None:
    """The run's result if it has ended, finalized now if need be; None while it goes on."""
    from ..run.finalize import finalize

    return finalize(run, plugins)


def standing(run: Run, plugins: Plugins) -> tuple[str, str | None]:
    """How an unfinished run stands and why; a run that has ended is finalized, then its status is its result's."""
    from ..run.finalize import finalize, job_status

    try:
        if read_result(run.path) is None:
            status = job_status(run, plugins)
            if status.state in ("pending", "running"):
                return status.state, status.reason or None
        result = finalize(run, plugins)
        return (result.status, result.cause) if result else ("running", None)
    except Exception as error:
        # Its plugin is not installed here, or is wrong: one run must not keep the others from being listed.
        return UNKNOWN, why(error)


def settle_all(db: sqlite3.Connection, install: Install, plugins: Plugins) -> None:
    """Bring every run that has not ended up to date, in its folder and in the index."""
    rows = db.execute(f"SELECT folder, path FROM runs WHERE {OPEN_RUNS}").fetchall()
    found = []
    for folder, path, run in _announced(rows, install, plugins):
        status, reason = standing(run, plugins)
        seen = fresh(install, path, folder)
        if seen.values is not None and seen.values["status"] == UNKNOWN:
            seen.values.update(status=status, cause=reason)
        found.append(seen)
    if found:
        write(db, install, found, {})


def _announced(rows: list[tuple[str, str]], install: Install, plugins: Plugins) -> list[tuple[str, str, Run]]:
    """The runs of these rows; their launchers know that they will be asked for all of them."""
    runs = []
    for folder, path in rows:
        try:
            runs.append((folder, path, read_run(install.path / folder)))
        except LlmbxError:
            continue
    jobs = [run.record.job for _, _, run in runs if run.record.job is not None]
    for name, launcher in plugins.launchers().items():
        with contextlib.suppress(PluginError):  # the launcher is asked for each job, too: there it is told
            launcher.watch([job for job in jobs if job.launcher == name])
    return runs


def open_runs(db: sqlite3.Connection) -> int:
    """How many runs have not ended."""
    number: int = db.execute(f"SELECT count(*) FROM runs WHERE {OPEN_RUNS}").fetchone()[0]
    return number
