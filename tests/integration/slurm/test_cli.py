"""The verbs on a real Slurm, each from a process of its own that knows nothing but the install's folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ...patience import PATIENCE_S

LINE = ("run", "line", "--runtime", "host", "--gpus", "4", "--gpus-per-node", "2")
Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Result = Callable[[Path], dict[str, Any]]

PROFILE = """\
default_cluster = "here"

[clusters.here]
launcher = "slurm"
partition = "urgent"
exclude = "n1"
walltime_minutes = { default = 60, line = 7 }
env = { SITE = "it's a \\"site\\"" }
setup = ["export FROM_SETUP=$((40 + 2))"]

[clusters.here.sbatch]
comment = "a b; c"
nice = 5

[clusters.here.srun]
wait = 30
"""


@pytest.fixture
def env(slurm: Any) -> dict[str, str]:
    """The variables of a user of this Slurm."""
    return {"SLURM_CONF": str(slurm.config), "LLMBX_PYTHON": sys.executable}


def detached(llmbx: Llmbx, env: dict[str, str], *more: str) -> tuple[str, str]:
    """Run id and job id of a run that was only submitted."""
    done = llmbx(*LINE, "--launcher", "slurm", "--detach", *more, env=env)
    assert done.returncode == 0, done.stderr
    run_id = done.stdout.strip()
    status = json.loads(llmbx("status", run_id, "--format", "json", env=env).stdout)
    assert f"started job {status['job_id']}; follow it: llmbx logs --follow {status['id']}" in done.stderr
    return run_id, str(status["job_id"])


def test_a_cluster_profile_chooses_slurm_and_reaches_the_job(
    llmbx: Llmbx, env: dict[str, str], slurm: Any, tmp_path: Path, only_run: Callable[..., Path], read_result: Result
) -> None:
    config = tmp_path / "llmbx.toml"
    config.write_text(PROFILE)
    done = llmbx(*LINE, "--format", "json", env={**env, "LLMBX_CONFIG": str(config)})
    result = read_result(only_run())
    assert (done.returncode, result["status"], result["launcher"]) == (0, "completed", "slurm"), done.stderr
    shown = slurm.call("scontrol", "--oneliner", "show", "job", result["job_id"])
    wanted = ("Partition=urgent", "TimeLimit=00:07:00", "Comment=a b; c", "Nice=5", "ExcNodeList=n1", "Requeue=0")
    assert [text for text in wanted if text not in shown] == []
    record = json.loads((only_run() / "run.json").read_text())
    assert record["spec"]["origins"]["launcher"] == f"cluster 'here' in {config}"
    script = (only_run() / "run.sh").read_text()
    assert "export FROM_SETUP=$((40 + 2))" in script and "--wait=30" in script
    assert 0 <= result["timing"]["queue_s"] < 30 and result["timing"]["total_s"] > 0


def test_status_logs_and_jobs_know_a_run_that_was_only_submitted(
    llmbx: Llmbx, background: Callable[..., subprocess.Popen[str]], env: dict[str, str], slurm: Any
) -> None:
    run_id, job = detached(llmbx, env, "--slurm-arg", "hold")
    waiting = json.loads(llmbx("status", job, "--format", "json", env=env).stdout)
    assert (waiting["status"], waiting["reason"]) == ("pending", "pending: JobHeldUser")
    followers = [background(*verb, run_id[:-3], env=env) for verb in (("logs", "--follow"), ("status", "--watch"))]
    for follower in followers:
        assert follower.stderr is not None
        assert re.match(r"  waiting for the job, \d+:\d\d: pending: JobHeldUser", follower.stderr.readline())
    slurm.call("scontrol", "release", job)
    for follower in followers:
        said, progress = follower.communicate(timeout=PATIENCE_S)
        assert follower.returncode == 0 and "step 20/20" in progress and "completed" in said
    listed = json.loads(llmbx("jobs", "--format", "json", env=env).stdout)
    assert [(row["run_id"], row["status"]) for row in listed] == [(run_id, "completed")]
    assert "toy step 20/20" in llmbx("logs", job, env=env).stdout


def test_a_run_that_nobody_followed_gets_its_result_later(
    llmbx: Llmbx, env: dict[str, str], slurm: Any, only_run: Callable[..., Path], read_result: Result, tmp_path: Path
) -> None:
    _, job = detached(llmbx, env, "--set", "fault=exit", "--set", f"hold={tmp_path / 'go'}")
    (tmp_path / "go").touch()  # `detached` asks for the status, and whoever finds the run's end closes it
    deadline = time.monotonic() + PATIENCE_S
    while slurm.call("squeue", "-h", "--states=all", "-j", job, "-o", "%T").strip() != "FAILED":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert not (only_run() / "result.json").exists()
    (row,) = json.loads(llmbx("jobs", "--format", "json", env=env).stdout)
    result = read_result(only_run())
    assert row["status"] == result["status"] == "failed" and result["exit_code"] == 7
    assert "(phase train) ended with exit code 7; node n" in result["cause"]


def test_cancel_by_the_schedulers_job_id(
    llmbx: Llmbx, env: dict[str, str], only_run: Callable[..., Path], read_result: Result
) -> None:
    run_id, job = detached(llmbx, env, "--set", "pace=0.5", "--steps", "500")
    done = llmbx("cancel", job, env=env)
    assert done.returncode == 0 and done.stdout.startswith(f"{run_id}: cancelled after ")
    assert read_result(only_run())["status"] == "cancelled"
    again = llmbx("cancel", job, env=env)
    assert again.returncode == 2 and "has already ended (cancelled)" in again.stderr


def test_what_sbatch_refuses_is_exit_4_and_leaves_a_truthful_record(
    llmbx: Llmbx, env: dict[str, str], only_run: Callable[..., Path], read_result: Result
) -> None:
    done = llmbx(*LINE, "--launcher", "slurm", "--slurm-arg", "partition=nope", env=env)
    assert done.returncode == 4 and "see `sinfo -s`" in done.stderr
    result = read_result(only_run())
    assert result["status"] == "failed" and "invalid partition" in result["cause"].lower()


def test_the_profile_that_init_writes_submits_a_job(
    llmbx: Llmbx, env: dict[str, str], slurm: Any, tmp_path: Path
) -> None:
    config = tmp_path / "llmbx.toml"
    done = llmbx("init", "mine", env={**env, "LLMBX_CONFIG": str(config)})
    assert done.returncode == 0, done.stderr
    text = config.read_text()
    assert 'launcher = "slurm"' in text and "gpus_per_node = 8" in text
    assert f'partition = "batch"     # batch: {slurm.nodes} nodes with 8 GPUs' in text
    assert 'gres = "gpu:8"' in text
    run = (*LINE, "--gpu-type", "cpu", "--emit-script", "-")
    planned = llmbx(*run, env={**env, "LLMBX_CONFIG": str(config)})
    assert planned.returncode == 0, planned.stderr
    assert "#SBATCH --partition=batch" in planned.stdout and "#SBATCH --gres=gpu:8" in planned.stdout


def test_a_run_is_left_and_found_again_while_squeue_fails(
    llmbx: Llmbx, env: dict[str, str], only_run: Callable[..., Path], tmp_path: Path
) -> None:
    """The stand-in for squeue denies everything, from the very first call."""
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Access/permission denied' >&2\nexit 1\n")
    squeue.chmod(0o755)
    denied = {**env, "PATH": f"{squeue.parent}:{os.environ['PATH']}"}
    hold = ("--set", f"hold={tmp_path / 'go'}")
    done = llmbx(*LINE, "--launcher", "slurm", "--slurm-max-outage", "0:01", *hold, env=denied)
    assert done.returncode == 4 and done.stderr.count("Access/permission denied; the job continues") == 1
    name = re.search(r"job \d+ continues: llmbx logs --follow (\S+);", done.stderr)
    assert name is not None and not (only_run() / "result.json").exists(), done.stderr
    (tmp_path / "go").touch()
    again = llmbx("logs", "--follow", name[1], env=env)
    assert again.returncode == 0 and "completed" in again.stdout, again.stderr
