"""Recover runs whose llmbx died, or could not reach the scheduler, while it was starting them.

Between the submission of a job and the moment its id is in `run.json` there is a gap. A run in this gap is either found
again by its folder, or abandoned such that no job of it can ever run: no job is lost and none runs twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..model.run_folder import GIVEN_UP
from ..record.folder import Run, read_run, write_record

if TYPE_CHECKING:
    from ..launchers.base import Launcher


def recover(runs: Sequence[Run], launcher: Launcher) -> list[Run]:
    """Return the same runs, each with its job if it has one; the others are abandoned. Raises `Unreachable`.

    All jobs are looked up at once. Abandoning needs two lookups with a marker file written between them: the script of
    a job that starts later sees the file and exits; a job that the second lookup finds is cancelled.
    """
    now = [read_run(run.path) for run in runs]
    open_ = [run for run in now if run.record.job is None and not run.files.file(GIVEN_UP).exists()]
    jobs = launcher.find({run.path: run.record.spec for run in open_}) if open_ else {}
    recovered = {}
    for run in open_:
        if run.path in jobs and jobs[run.path].job_id not in _earlier(run):
            record = run.record.replace(job=jobs[run.path])
            write_record(run.path, record)
            recovered[run.folder] = run.replace(record=record)
    _abandon([run for run in open_ if run.folder not in recovered], launcher)
    return [recovered.get(run.folder, run) for run in now]


def _earlier(run: Run) -> set[str]:
    """Return the job ids of the run's earlier attempts, which have the same folder."""
    return {attempt.job.job_id for attempt in run.record.attempts if attempt.job}


def _abandon(runs: Sequence[Run], launcher: Launcher) -> None:
    for run in runs:
        run.files.write(GIVEN_UP, "")
    late = launcher.find({run.path: run.record.spec for run in runs}) if runs else {}
    for run in runs:
        if run.path in late and late[run.path].job_id not in _earlier(run):
            launcher.cancel(late[run.path], run.path)
