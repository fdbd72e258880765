"""Sweeps on a real Slurm: many jobs, a controller that goes away, an llmbx that is killed; nothing lost, nothing twice.

LLMBX_TEST_SWEEP_RUNS sets how many runs the large sweep has (500).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ...patience import PATIENCE_S, wait_until
from .lossy_network import ANY, JOB_QUERY, JOBS_QUERY, SUBMISSION, Lost, lossy_network

Llmbx = Callable[..., subprocess.CompletedProcess[str]]
Background = Callable[..., subprocess.Popen[str]]

RUNS = int(os.environ.get("LLMBX_TEST_SWEEP_RUNS", "500"))
SECOND = ("--set", "pace=0.05")  # the toy's twenty steps take a second
LINE = ("sweep", "line", "--launcher", "slurm", "--runtime", "host", "--gpus", "1")


@pytest.fixture
def env(slurm: Any) -> dict[str, str]:
    """Variables with which llmbx reaches this Slurm and starts this Python."""
    return {"SLURM_CONF": str(slurm.config), "LLMBX_PYTHON": sys.executable}


def records(install: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The runs of the install: folder and record."""
    paths = install.glob("workloads/*/experiments/*/*/*/run.json")
    return [(path.parent, json.loads(path.read_bytes())) for path in paths]


def with_results(install: Path) -> int:
    return len(list(install.glob("workloads/*/experiments/*/*/*/result.json")))


def with_jobs(install: Path) -> int:
    return sum(record["job"] is not None for _, record in records(install))


def trained(install: Path) -> Counter[tuple[str, int]]:
    """How often each place of the sweep was really trained, whatever the records say of it."""
    return Counter(
        (record["sweep"]["cell"], record["sweep"]["repeat"])
        for folder, record in records(install)
        if any(b"toy step" in log.read_bytes() for log in folder.glob("log-*.out"))
    )


def odd_ones(install: Path) -> str:
    """The runs that are not completed and valid: what their results and the outputs of their jobs say, in full."""
    lines = []
    for path in install.glob("workloads/*/experiments/*/*/*/result.json"):
        result = json.loads(path.read_bytes())
        if result["status"] != "completed" or not result["data_valid"]:
            lines += ["", *(f"{key}: {result[key]}" for key in ("run_id", "status", "cause", "warnings"))]
            for output in (*path.parent.glob("sbatch_*.out"), *path.parent.glob("log-*.out")):
                lines += [output.name, *output.read_text(errors="replace").splitlines()[-30:]]
    return "\n".join(lines)


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_a_sweep_outlives_the_controller_and_its_own_llmbx(
    slurm: Any, env: dict[str, str], install: Path, background: Background, llmbx: Llmbx
) -> None:
    plan = (*LINE, *SECOND, "--set", "rate=0.1,0.2", "--repeats", str(RUNS // 2), "--max-jobs", "500")
    first = background(*plan, env=env)
    wait_until(lambda: with_jobs(install) >= RUNS // 4)
    first.kill()
    first.wait()
    slurm.stop_daemon("slurmctld.pid")
    second = background("sweep", "--resume", "--format", "json", env=env)
    time.sleep(3)
    assert second.poll() is None, second.communicate()
    slurm.start_controller()
    wait_until(lambda: with_results(install) >= RUNS // 2)
    slurm.stop_daemon("slurmctld.pid")
    time.sleep(3)
    slurm.start_controller()
    wait_until(lambda: with_results(install) >= RUNS * 3 // 4)
    second.kill()
    second.wait()
    third = llmbx("sweep", "--resume", "--format", "json", env=env)
    # Printed because pytest shortens the message of an assertion.
    print(odd_ones(install), third.stderr, sep="\n")
    assert third.returncode == 0
    assert [(row["n"], row["repeats"], row["status"]) for row in rows(third)] == [
        (RUNS // 2, RUNS // 2, "completed")
    ] * 2
    assert len({run for row in rows(third) for run in row["runs"]}) == RUNS
    times = trained(install)
    assert len(times) == RUNS and set(times.values()) == {1}


@pytest.mark.parametrize("what", ["request", "answer", "connection"])
def test_a_sweep_whose_network_loses_messages_runs_every_job_once(
    slurm: Any, env: dict[str, str], install: Path, llmbx: Llmbx, tmp_path: Path, what: str
) -> None:
    if what == "connection":
        lost = (Lost(what, ANY, after=1),) * 6
    else:
        lost = (Lost(what, SUBMISSION, after=2), Lost(what, JOB_QUERY, after=1), Lost(what, JOBS_QUERY, after=1))
    plan = (*LINE, *SECOND, "--repeats", "8", "--max-jobs", "2", "--format", "json")
    with lossy_network(slurm, tmp_path, *lost) as (network, config):
        done = llmbx(*plan, env={**env, "SLURM_CONF": str(config)})
        print(odd_ones(install), done.stderr, sep="\n")
        assert (done.returncode, rows(done)[0]["n"]) == (0, 8)
        assert len(network.left) < len(lost) - 1 and all(lost.type != SUBMISSION for lost in network.left)
    assert len(trained(install)) == 8 and set(trained(install).values()) == {1}


@pytest.fixture
def killing_sbatch(tmp_path: Path) -> Callable[[str], str]:
    """`killing_sbatch(lines)`: a PATH whose sbatch runs these lines of shell; REAL is the real one, $PPID is llmbx."""

    def make(lines: str) -> str:
        folder = tmp_path / "bin"
        folder.mkdir()
        script = folder / "sbatch"
        script.write_text(f"#!/bin/sh\nREAL={shutil.which('sbatch')}\n{lines}\n")
        script.chmod(0o755)
        return f"{folder}:{os.environ['PATH']}"

    return make


def test_a_job_whose_id_was_never_written_down_is_found_again(
    env: dict[str, str], install: Path, llmbx: Llmbx, killing_sbatch: Callable[[str], str]
) -> None:
    path = killing_sbatch('"$REAL" --hold "$@" > /dev/null; kill -9 $PPID')
    killed = llmbx(*LINE, env={**env, "PATH": path})
    assert killed.returncode == -signal.SIGKILL and with_jobs(install) == 0
    listed = llmbx("jobs", "--format", "json", env=env)
    assert json.loads(listed.stdout)[0]["status"] == "pending", listed.stderr
    (job,) = (record["job"]["job_id"] for _, record in records(install))
    subprocess.run(["scontrol", "release", job], env={**os.environ, **env}, check=True)
    done = llmbx("sweep", "--resume", "--format", "json", env=env)
    assert (done.returncode, rows(done)[0]["n"]) == (0, 1), done.stderr
    assert set(trained(install).values()) == {1} and len(records(install)) == 1


def test_a_job_that_comes_after_it_was_given_up_does_nothing(
    env: dict[str, str], install: Path, llmbx: Llmbx, killing_sbatch: Callable[[str], str], tmp_path: Path
) -> None:
    wait = f"while [ ! -e {tmp_path}/now ]; do sleep 0.1; done"
    path = killing_sbatch(f'kill -9 $PPID; {wait}; "$REAL" "$@" < /dev/null > {tmp_path}/late 2>&1')
    killed = llmbx(*LINE, env={**env, "PATH": path})
    assert killed.returncode == -signal.SIGKILL
    done = llmbx("sweep", "--resume", "--format", "json", env=env)
    assert (done.returncode, rows(done)[0]["n"]) == (0, 1), done.stderr
    (tmp_path / "now").touch()
    given_up = next(folder for folder, _ in records(install) if (folder / "given-up").exists())
    wait_until(lambda: any("was abandoned" in file.read_text() for file in given_up.glob("sbatch_*.out")))
    assert set(trained(install).values()) == {1}
    again = llmbx("sweep", "--resume", "--format", "json", env=env)
    assert (again.returncode, rows(again)[0]["n"]) == (0, 1) and len(records(install)) == 2


def test_ctrl_c_leaves_the_jobs_and_says_how_to_go_on(
    env: dict[str, str], install: Path, llmbx: Llmbx, background: Background
) -> None:
    sweep = background(*LINE, *SECOND, "--repeats", "12", "--max-jobs", "4", env=env)
    wait_until(lambda: with_jobs(install) >= 4)
    sweep.send_signal(signal.SIGINT)
    _, err = sweep.communicate(timeout=PATIENCE_S)
    assert sweep.returncode == 130 and "resume with: llmbx sweep --resume line_" in err, err
    started = with_jobs(install)
    assert (
        4 <= started < 12 and f"{12 - with_results(install) - (started - with_results(install))} not submitted" in err
    )
    done = llmbx("sweep", "--resume", "--format", "json", env=env)
    assert (done.returncode, rows(done)[0]["n"]) == (0, 12), done.stderr
    shown = llmbx("sweep", "--show", env=env)
    assert "12/12" in shown.stdout and "completed" in shown.stdout
    assert set(trained(install).values()) == {1} and len(records(install)) == 12


def test_failed_cells_are_named_and_decide_the_exit_code(env: dict[str, str], llmbx: Llmbx) -> None:
    done = llmbx(*LINE, "--set", "fault=exit,", "--format", "json", env=env)
    assert done.returncode == 1
    bad, good = rows(done)
    assert (bad["status"], bad["n"], good["status"], good["n"]) == ("failed", 0, "completed", 1)
    assert "exit code 7" in bad["cause"]
    refused = llmbx(*LINE, "--repeats", "20", "--slurm-arg", "partition=nope", env=env)
    assert refused.returncode == 4 and "3 submissions in a row were rejected" in refused.stderr
    assert "see `sinfo -s`" in refused.stderr and "llmbx sweep --resume" in refused.stderr
