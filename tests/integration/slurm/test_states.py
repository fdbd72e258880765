"""How a job ended, told apart on a real Slurm that keeps accounts: memory, preemption, requeueing, forgotten jobs."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from llmbx.errors import Unreachable, UsageError
from llmbx.model import JobStatus
from llmbx_slurm.launcher import SlurmLauncher

from ...patience import wait_until
from .conftest import SlurmRun, make_launch, make_spec

Submit = Callable[..., SlurmRun]
HUNGRY = (
    "import os, time\n"
    "print('up', flush=True)\n"
    "if os.environ['LLMBX_RANK'] == '1':\n"
    "    kept = b'x' * 400_000_000\n"
    "time.sleep(60)\n"
)


def fresh(run: SlurmRun) -> JobStatus:
    """How it stands for somebody who has never asked before."""
    return SlurmLauncher().status(run.job, run.folder)


def test_a_memory_limit(submit: Submit) -> None:
    launch = make_launch("exec python3 hungry.py", files={"hungry.py": HUNGRY.encode()})
    status = submit(launch, make_spec(sbatch={"mem": "150", "nodelist": "n1,n2"})).end()
    assert (status.verdict, status.rank, status.node, status.phase) == ("out_of_memory", None, "n1", "train")
    assert status.reason.startswith("node n1: exceeded memory limit (")
    assert status.exit_code not in (0, None)


def test_preemption_by_a_partition_of_higher_priority(submit: Submit) -> None:
    run = submit(make_launch("echo up; sleep 600", nodes=4), make_spec(gpus=8, sbatch={"exclusive": ""}))
    run.wait_for("7: up")
    urgent = submit(make_launch("echo urgent", nodes=4), make_spec(gpus=8, sbatch={"partition": "urgent"}))
    status = run.end()
    assert (status.verdict, status.rank) == ("preempted", None), run.batch
    assert status.reason == "PREEMPTED"
    assert urgent.end().exit_code == 0


def test_a_requeued_job_starts_anew_and_keeps_what_it_had(submit: Submit, slurm: Any) -> None:
    program = 'echo "start ${SLURM_RESTART_COUNT:-0}"; [ "${SLURM_RESTART_COUNT:-0}" = 1 ] || sleep 600'
    run = submit(make_launch(program), make_spec(sbatch={"requeue": ""}))
    run.wait_for("3: start 0")
    slurm.call("scontrol", "requeue", run.job.job_id)
    wait_until(lambda: fresh(run).state == "pending")
    assert "BeginTime" in fresh(run).reason
    time.sleep(2)  # slurmd refuses credentials of the second in which it revoked the job's: hence Slurm's own delay
    slurm.call("scontrol", "update", f"jobid={run.job.job_id}", "starttime=now")
    status = run.end()
    assert (status.state, status.exit_code, status.verdict) == ("ended", 0, None), run.batch
    assert sorted(run.log.splitlines()) == [f"{rank}: start 1" for rank in range(4)]
    before = next((run.folder / "attempts" / "0").glob("log-*.out")).read_text()
    assert "3: start 0" in before
    assert (run.folder / "run.sh").is_file()


def test_what_the_controller_forgot_is_in_the_accounts(
    submit: Submit, slurm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = submit(make_launch("exit 5"))
    limited = submit(make_launch("echo up; sleep 600"), make_spec(sbatch={"time": "60"}))
    limited.wait_for("3: up")
    limited.launcher.cancel(limited.job, limited.folder)
    assert ended.end().exit_code == 5 and limited.end().verdict == "cancelled"
    wait_until(lambda: "CANCELLED" in slurm.call("sacct", "-nXP", "-j", limited.job.job_id, "-o", "state"))
    slurm.forget_jobs()
    assert slurm.call("squeue", "--states=all", "--noheader").strip() == ""
    for run in (ended, limited):
        (run.folder / "exit.json").unlink()
    slurm.stop_daemon("slurmdbd.pid")
    with pytest.raises(Unreachable, match="Problem talking to the database"):
        fresh(limited)
    slurm.start_accounting()
    status = fresh(limited)
    assert (status.verdict, status.reason) == ("cancelled", "CANCELLED by 0") and status.ended is not None
    assert (fresh(ended).exit_code, fresh(ended).state, fresh(ended).started is not None) == (5, "ended", True)
    asked = _counted(monkeypatch)
    launcher = SlurmLauncher()
    launcher.watch([ended.job, limited.job])
    for run in (ended, limited, ended, limited):
        launcher.status(run.job, run.folder)
    assert asked == ["squeue", "sacct"]
    _purged(slurm, ended, limited)


def test_a_job_that_is_cancelled_while_it_is_pending_has_not_started(submit: Submit, slurm: Any) -> None:
    run = submit(make_launch("echo up"), make_spec(sbatch={"hold": ""}))
    run.wait("pending")
    run.launcher.cancel(run.job, run.folder)
    status = run.end()
    assert (status.state, status.verdict, status.started) == ("ended", "cancelled", None)
    assert status.reason == "CANCELLED before it started" and status.ended is not None
    wait_until(lambda: "CANCELLED" in slurm.call("sacct", "-nXP", "-j", run.job.job_id, "-o", "state"))
    slurm.forget_jobs()
    status = fresh(run)
    assert (status.state, status.verdict, status.started) == ("ended", "cancelled", None)
    assert status.reason == "CANCELLED by 0 before it started"


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of Slurm that are called from here on."""
    from llmbx_slurm import state

    asked: list[str] = []
    call = state.call

    def counted(*command: str) -> str:
        asked.append(command[0])
        return call(*command)

    monkeypatch.setattr(state.Queue.__init__, "__defaults__", (counted, time.monotonic))
    return asked


def _purged(slurm: Any, *runs: SlurmRun) -> None:
    """Purged from accounting, too: then the files have the last word, or the job is lost."""
    slurm.sql(f"delete from slurm_acct_db.llmbx_job_table where id_job in ({','.join(r.job.job_id for r in runs)})")
    for run in runs:
        silent_for_a_second = run.job.replace(submitted=time.time() - 1)
        status = SlurmLauncher().status(silent_for_a_second, run.folder)
        assert status.state == "running", status  # its last word may still come
        long_ago = run.job.replace(submitted=1.0)
        for path in run.folder.glob("*.out"):
            os.utime(path, (1.0, 1.0))
        status = SlurmLauncher().status(long_ago, run.folder)
        assert (status.state, status.verdict) in (("lost", None), ("ended", "cancelled")), status
        word = {"exit_code": 0, "started": 5.0, "ended": 9.0, "job_id": run.job.job_id, "host": "n1"}
        (run.folder / "exit.json").write_text(json.dumps(word))
        assert SlurmLauncher().status(long_ago, run.folder).state == "ended"


def test_without_accounts_the_files_serve(submit: Submit, slurm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = submit(make_launch("exit 5"))
    assert run.end().exit_code == 5
    slurm.forget_jobs()
    monkeypatch.setenv("SLURM_CONF", str(slurm.without_accounting()))
    said = subprocess.run(["sacct", "-j", run.job.job_id], capture_output=True, text=True, check=False)
    assert "accounting storage is disabled" in said.stderr
    assert fresh(run).exit_code == 5


def test_a_job_beyond_the_limits_of_its_partition_can_never_start(submit: Submit, slurm: Any) -> None:
    """Slurm accepts such jobs, and they would wait for ever; `scancel --state=PENDING` leaves a started one alone."""
    slurm.call("scontrol", "create", "PartitionName=small", "Nodes=ALL", "MaxTime=1", "State=DOWN")
    late = submit(make_launch("echo up", nodes=1), make_spec(gpus=2, sbatch={"partition": "small", "time": "60"}))
    large = submit(make_launch("echo up"), make_spec(sbatch={"partition": "small", "time": "1"}))
    slurm.call("scontrol", "update", "PartitionName=small", "MaxNodes=1", "State=UP")
    wait_until(lambda: late.status().verdict == "not_started" and large.status().verdict == "not_started")
    assert late.status().reason.startswith("it can never start (PartitionTimeLimit): its time limit exceeds")
    assert large.status().reason.startswith("it can never start (PartitionNodeLimit): it asks for 2 nodes, but the")
    for run in (late, large):
        run.launcher.cancel_pending(run.job, run.folder)
        assert (run.end().verdict, run.end().exit_code) == ("not_started", 4)
    with pytest.raises(
        UsageError, match=r"could never start: it asks for 2 nodes, but the partition small allows at most 1"
    ):
        submit(make_launch("echo up"), make_spec(sbatch={"partition": "small", "time": "1"}))
    running = submit(make_launch("echo up; sleep 5"))
    running.wait_for("3: up")
    running.launcher.cancel_pending(running.job, running.folder)
    assert running.end().exit_code == 0
