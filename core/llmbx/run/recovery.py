"""Runs whose llmbx died, or lost sight of the scheduler, while it started them: is there a job, and which?

Between the start of a job and the moment its id is in `run.json` there is a gap. What falls into it is either found
again by the run folder, or given up in a way that no job of it can ever do anything: nothing is lost, nothing is twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..launchers.base import Launcher
from ..launchers.script import GIVEN_UP
from ..record.folder import Run, read_run, write_record


def recover(runs: Sequence[Run], launcher: Launcher) -> list[Run]:
    """The same runs, each with its job where it has one; the others are given up. Raises `Unreachable`.

    All jobs are looked for at once. Giving up takes two looks: the script of a job that is started between them sees
    the file made there, and ends; a job that the second look finds is cancelled.
    """
    now = [read_run(run.path) for run in runs]
    open_ = [run for run in now if run.record.job is None and not (run.path / GIVEN_UP).exists()]
    found = launcher.find({run.path: run.record.spec for run in open_}) if open_ else {}
    recovered = {}
    for run in open_:
        if run.path in found and found[run.path].job_id not in _earlier(run):
            record = run.record.replace(job=found[run.path])
            write_record(run.path, record)
            recovered[run.folder] = run.replace(record=record)
    _give_up([run for run in open_ if run.folder not in recovered], launcher)
    return [recovered.get(run.folder, run) for run in now]


def _earlier(run: Run) -> set[str]:
    """The jobs of the run's earlier attempts, which are known by the same folder."""
    return {attempt.job.job_id for attempt in run.record.attempts if attempt.job}


def _give_up(runs: Sequence[Run], launcher: Launcher) -> None:
    for run in runs:
        (run.path / GIVEN_UP).touch()
    late = launcher.find({run.path: run.record.spec for run in runs}) if runs else {}
    for run in runs:
        if run.path in late and late[run.path].job_id not in _earlier(run):
            launcher.cancel(late[run.path], run.path)
