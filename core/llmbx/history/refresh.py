"""Refresh unfinished runs: update their state, finalize those that have ended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..config.install import Install
from ..errors import LlmbxError, PluginError
from ..record.folder import Run, read_run
from .read import UNKNOWN
from .scan import OPEN_RUNS, read_now, write

if TYPE_CHECKING:
    import sqlite3

    from ..plugins.manager import Plugins


HAS_ENDED = "has ended ("
"""Begins the reason of a run of another user that has ended, and whose result is not recorded yet."""

UNFINISHED = f"{OPEN_RUNS} AND NOT (status = '{UNKNOWN}' AND cause IS NOT NULL AND cause LIKE '{HAS_ENDED}%')"
"""SQL condition for the runs to query: what another user's run that has ended computed once is in the index until its
folder changes.
"""


def refresh_all(db: sqlite3.Connection, install: Install, plugins: Plugins) -> None:
    """Update every unfinished run, in its folder and in the index."""
    from ..run.refresh import current_status

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
