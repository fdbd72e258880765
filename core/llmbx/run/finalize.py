"""The state of a run as it is now, and its result, which is written exactly once when it has ended.

Between the submission of a job and the moment its id is in `run.json` there is a gap. A run whose llmbx died
or could not reach the scheduler in this gap is either found again by its folder, or abandoned such that no
job of it can ever run: no job is lost and none runs twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import PluginError
from ..model import JobStatus, Result
from ..model.run_folder import GIVEN_UP
from ..record.folder import RESULT, Run, owns, read_result, read_run, sealed, write_record, write_steps
from ..record.host import alive, is_me
from .assess import Ended, assess, assess_without_log, start_refusals
from .collect import collect_run
from .own_result import own_result
from .verdict import infrastructure_cause

if TYPE_CHECKING:
    from ..launchers.base import Launcher
    from ..plugins.manager import Plugins
    from .collect import Log

OWNER_GRACE_S = 60.0
"""Seconds after a run's end in which its owner may still retry it, if that process is on another host."""


def finalize(run: Run, plugins: Plugins) -> Result | None:
    """Return the run's result: the one on disk, a new one if the run has ended, or None while it is running.

    Safe to call from several processes at once: the first write wins, and all return the same result. The result of
    another user's run is only returned: only its owner writes into its folder.
    """
    existing = own_result(run, rename=owns(run))
    if existing is not None:
        return existing
    status = job_status(run, plugins)
    if status.state in ("pending", "running"):
        return None
    ended = assess(run if run.record.job else read_run(run.path), plugins, status)
    if _left_to_owner(ended, plugins):
        return None
    return write(ended) if owns(run) else ended.result


def job_status(run: Run, plugins: Plugins) -> JobStatus:
    """Return the status of the run's job.

    A run without a recorded job is either still being prepared, or its llmbx process died; then the launcher is
    searched for a job.
    """
    record = run.record
    if record.job is not None:
        return plugins.launcher(record.job.launcher).status(record.job, run.path)
    living = alive(record.owner) if record.owner else False
    if living:
        return JobStatus(state="pending", reason="being prepared")
    if living is None and record.owner:
        return JobStatus(state="pending", reason=f"being prepared on {record.owner.host}")
    if not owns(run):
        return JobStatus(state="pending", reason=f"has no recorded job; a command of {run.files.owner} looks for it")
    launcher = plugins.launcher(record.spec.launcher)
    (recovered,) = recover([run], launcher)
    if recovered.record.job is not None:
        return launcher.status(recovered.record.job, run.path)
    return JobStatus(state="lost", reason="llmbx ended before the run was started")


def conclude(run: Run, plugins: Plugins, status: JobStatus) -> Result:
    """Write the result of a run that never started, or whose end is known from `status` and not from the launcher."""
    existing = own_result(run)
    if existing is not None:
        return existing
    try:
        return write(assess(run, plugins, status))
    except PluginError:  # the log parser itself may have ended the run; `status` is known without it
        return write(assess_without_log(run, status))


def retry_cause(ended: Ended, plugins: Plugins) -> str | None:
    """Return the infrastructure failure that calls for a retry; None if there is none or no retry is left."""
    spec, record = ended.run.record.spec, ended.run.record
    if record.attempt >= spec.retries or record.job is None:
        return None
    return infrastructure_cause(ended.status, ended.result, ended.log, start_refusals(ended.run, plugins))


def _left_to_owner(ended: Ended, plugins: Plugins) -> bool:
    """Whether another process owns the run and will retry it, so that this process must not finalize it."""
    owner = ended.run.record.owner
    if owner is None or is_me(owner) or retry_cause(ended, plugins) is None:
        return False
    living = alive(owner)
    return living is True or (living is None and time.time() - (ended.status.ended or 0.0) < OWNER_GRACE_S)


def launcher_of(run: Run, plugins: Plugins) -> Launcher:
    """Return the launcher that started the run's job."""
    assert run.record.job is not None
    return plugins.launcher(run.record.job.launcher)


def read_log(run: Run, plugins: Plugins) -> Log:
    """Parse the run's log with its framework's parser; empty if there is no log."""
    parser = plugins.framework(run.record.spec.plugin).parse_log(run.record.spec)
    return collect_run(parser, run)


def write(ended: Ended) -> Result:
    """Write steps and result. If another process was first, its result is kept and returned."""
    run = ended.run
    write_steps(run.path, ended.log.steps)
    won = run.files.write_once(RESULT, sealed(ended.result))
    return ended.result if won else read_result(run.path) or ended.result


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
