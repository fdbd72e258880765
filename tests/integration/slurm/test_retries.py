"""`--retries` on a real Slurm: a node that fails, a network that cannot be initialised, and what is never repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.record.folder import digest

from ...patience import PATIENCE_S, wait_until

LINE = (
    "run", "line", "--runtime", "host", "--gpus", "4", "--gpus-per-node", "2", "--launcher", "slurm",
    "--format", "json",
)  # fmt: skip
Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Result = Callable[[Path], dict[str, Any]]


@pytest.fixture
def env(slurm: Any) -> dict[str, str]:
    """The variables of a user of this Slurm."""
    return {"SLURM_CONF": str(slurm.config), "LLMBX_PYTHON": sys.executable}


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return record


def wait_for_step(install: Path, number: int, only_run: Callable[..., Path]) -> Path:
    def logged() -> bool:
        logs = list(install.glob("workloads/*/experiments/*/*/*/log-*.out"))
        return bool(logs) and f"step {number}/" in logs[0].read_text(errors="replace")

    wait_until(logged, f"step {number} was not seen")
    return only_run()


def test_a_failed_node_is_left_out_of_the_next_attempt(
    background: Callable[..., subprocess.Popen[str]], slurm: Any, env: dict[str, str], install: Path,
    only_run: Callable[..., Path], read_result: Result, llmbx: Llmbx,
) -> None:  # fmt: skip
    run = background(*LINE, "--retries", "2", "--set", f"hold={install}.go", env=env)
    folder = wait_for_step(install, 3, only_run)
    first = record_of(folder)["job"]["job_id"]
    taken = slurm.call("squeue", "-h", "-j", first, "-o", "%N")
    node = slurm.call("scontrol", "show", "hostnames", taken.strip()).split()[1]
    slurm.call("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    wait_until((folder / "attempts" / "0").exists)
    Path(f"{install}.go").touch()
    out, err = run.communicate(timeout=PATIENCE_S)  # Slurm takes the node back by itself
    result = read_result(folder)
    assert (run.returncode, result["status"], result["attempt"]) == (0, "completed", 1), err
    printed = json.loads(out)
    assert f"attempt 1 of 2 without {node}" in err and printed == {**result, "digest": None}
    assert result["digest"] == digest(printed), "the file has the digest of what was printed"
    assert any("attempt 0 ended with node_fail" in line and "attempts/0" in line for line in result["warnings"])
    record = record_of(folder)
    (earlier,) = record["attempts"]
    assert (earlier["job"]["job_id"], earlier["status"], earlier["node"]) == (first, "node_fail", node)
    assert record["spec"]["plugin_settings"]["slurm"]["sbatch"]["exclude"] == node and record["job"]["job_id"] != first
    kept = folder / "attempts" / "0"
    assert json.loads((kept / "result.json").read_text())["status"] == "node_fail"
    assert "step 3/" in next(kept.glob("log-*.out")).read_text() and (kept / "run.sh").is_file()
    shown = llmbx("status", result["run_id"], "--format", "json", env=env)
    assert (json.loads(shown.stdout)["status"], json.loads(shown.stdout)["attempt"]) == ("completed", 1)
    assert json.loads(llmbx("status", first, "--format", "json", env=env).stdout)["run_id"] == result["run_id"]
    slurm.wait_idle()


def test_nccl_that_cannot_be_initialised_is_tried_again(
    llmbx: Llmbx, env: dict[str, str], only_run: Callable[..., Path], read_result: Result
) -> None:
    done = llmbx(*LINE, "--retries", "1", "--set", "fault=network", env=env)
    result = read_result(only_run())
    assert (done.returncode, result["status"], result["attempt"]) == (0, "completed", 1), done.stderr
    assert "NCCL error" in done.stderr and "attempt 1 of 1" in done.stderr
    assert len(record_of(only_run())["spec"]["plugin_settings"]["slurm"]["sbatch"]["exclude"].split(",")) == 1


@pytest.mark.parametrize(
    ("fault", "status"), [("oom", "out_of_memory"), ("exit", "failed"), ("crash_at_end", "failed")]
)
def test_the_applications_failures_and_whole_data_are_not_repeated(
    llmbx: Llmbx, env: dict[str, str], only_run: Callable[..., Path], read_result: Result, fault: str, status: str
) -> None:
    pace = "0.1" if fault == "oom" else "0.05"  # the others shall not come to their end before they are stopped
    done = llmbx(*LINE, "--retries", "3", "--set", f"fault={fault}", "--set", f"pace={pace}", env=env)
    result = read_result(only_run())
    assert (done.returncode, result["status"], result["attempt"]) == (1, status, 0), done.stderr
    assert result["data_valid"] is (fault == "crash_at_end")
    assert not (only_run() / "attempts").exists()


def test_whoever_follows_a_run_goes_on_with_its_attempts(
    background: Callable[..., subprocess.Popen[str]], slurm: Any, env: dict[str, str], install: Path, llmbx: Llmbx,
    only_run: Callable[..., Path], read_result: Result,
) -> None:  # fmt: skip
    run = background(*LINE, "--retries", "1", "--set", f"hold={install}.go", env=env)
    folder = wait_for_step(install, 2, only_run)
    os.kill(run.pid, signal.SIGINT)
    assert "detached; follow: llmbx logs --follow" in run.communicate(timeout=PATIENCE_S)[1]
    first = record_of(folder)["job"]["job_id"]
    assert run.returncode == 130 and slurm.call("squeue", "-h", "-j", first, "-o", "%T").strip() == "RUNNING"
    follower = background("logs", "--follow", first, env=env)
    wait_until(lambda: record_of(folder)["owner"]["pid"] == follower.pid, "nobody has taken the run over")
    node = slurm.call("scontrol", "show", "hostnames", slurm.call("squeue", "-h", "-j", first, "-o", "%N").strip())
    slurm.call("scontrol", "update", f"nodename={node.split()[0]}", "state=down", "reason=test")
    # others that look meanwhile neither close the run nor repeat it
    while follower.poll() is None:
        assert llmbx("jobs", env=env).returncode == 0
        if (folder / "attempts" / "0").exists():
            Path(f"{install}.go").touch()
    out, err = follower.communicate(timeout=PATIENCE_S)
    result = read_result(folder)
    assert (follower.returncode, result["status"], result["attempt"]) == (0, "completed", 1), out + err
    slurm.wait_idle()


def test_retries_need_somebody_who_follows(llmbx: Llmbx, env: dict[str, str]) -> None:
    done = llmbx(*LINE, "--retries", "1", "--detach", env=env)
    assert done.returncode == 2 and "--retries cannot be combined with --detach" in done.stderr


def test_runs_of_a_sweep_are_tried_again(llmbx: Llmbx, env: dict[str, str], install: Path, read_result: Result) -> None:
    asked = ("--runtime", "host", "--gpus", "2", "--gpus-per-node", "1", "--launcher", "slurm", "--repeats", "2")
    done = llmbx("sweep", "line", *asked, "--retries", "1", "--set", "fault=network", env=env)
    results = [read_result(path.parent) for path in install.glob("workloads/*/experiments/*/*/*/result.json")]
    assert [(result["status"], result["attempt"]) for result in results] == [("completed", 1)] * 2, done.stderr
    assert done.returncode == 0 and done.stderr.count("attempt 1 of 1") == 2


def test_a_node_found_bad_before_the_start_is_left_out(
    llmbx: Llmbx, env: dict[str, str], tmp_path: Path, only_run: Callable[..., Path], read_result: Result
) -> None:
    prolog, config = tmp_path / "prolog.sh", tmp_path / "llmbx.toml"
    prolog.write_text('#!/bin/sh\n[ "$SLURMD_NODENAME" != n1 ] || exit 1\n')
    prolog.chmod(0o755)
    config.write_text(f'[clusters.sick]\npreflight = true\n[clusters.sick.srun]\ntask-prolog = "{prolog}"\n')
    env = {**env, "LLMBX_CONFIG": str(config)}
    done = llmbx(*LINE, "--cluster", "sick", "--retries", "1", env=env)
    record, result = record_of(only_run()), read_result(only_run())
    assert (done.returncode, result["status"], result["attempt"]) == (0, "completed", 1), done.stderr
    (earlier,) = record["attempts"]
    assert earlier["node"] == record["spec"]["plugin_settings"]["slurm"]["sbatch"]["exclude"] == "n1"
    assert earlier["cause"].startswith("node n1: no check result") and "attempt 1 of 1 without n1" in done.stderr
    kept = only_run() / "attempts" / "0"
    assert "node n1" in next(kept.glob("sbatch_*.out")).read_text() and not list(kept.glob("log-*.out"))
