"""Refresh unfinished runs: update their state, finalize those that have ended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from llmbx.api import LlmbxError
from llmbx.api.verbs import Install, Run

from .read import UNKNOWN
from .scan import OPEN_RUNS, read_now, write

if TYPE_CHECKING:
    import sqlite3

    from llmbx.api.verbs import Plugins


HAS_ENDED = "has ended ("
"""Begins the reason of another user's run that has ended without a recorded result."""

_ENDED = f"status = '{UNKNOWN}' AND cause IS NOT NULL AND cause LIKE '{HAS_ENDED}%'"
UNFINISHED = f"{OPEN_RUNS} AND NOT ({_ENDED})"
"""SQL condition for the runs to query.

The state of another user's run that has ended is computed once, until its folder changes.
"""


def refresh_all(db: sqlite3.Connection, install: Install, plugins: Plugins) -> None:
    """Update every unfinished run, in its folder and in the index."""
    from llmbx.api.verbs import current_status

    rows = db.execute(f"SELECT folder, path FROM runs WHERE {UNFINISHED}").fetchall()
    updated = []
    for folder, path, run in _watched(rows, install, plugins):
        status, reason = current_status(run, plugins)
        scanned = read_now(install, path, folder)
        if scanned.values is not None and scanned.values["status"] == UNKNOWN:
            scanned.values.update(status=status, cause=reason)
        updated.append(scanned)
    if updated:
        write(db, install, updated, {})


def _watched(
    rows: list[tuple[str, str]], install: Install, plugins: Plugins
) -> list[tuple[str, str, Run]]:
    """The runs of these rows. Launchers are told their jobs, so that they can query all at once."""
    runs = []
    for folder, path in rows:
        try:
            runs.append((folder, path, Run.read(install.path / folder)))
        except LlmbxError:
            continue
    jobs = [run.record.job for _, _, run in runs if run.record.job is not None]
    for name, launcher in plugins.launchers().items():
        with contextlib.suppress(LlmbxError):  # reported when the launcher is asked for each job
            launcher.watch([job for job in jobs if job.launcher == name])
    return runs


def open_runs(db: sqlite3.Connection) -> int:
    """The number of unfinished runs."""
    number: int = db.execute(f"SELECT count(*) FROM runs WHERE {UNFINISHED}").fetchone()[0]
    return number
