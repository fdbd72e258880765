"""`llmbx run` inside an allocation that is there already, on a real Slurm: salloc, a batch script, a step's shell."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ...patience import PATIENCE_S
from ..conftest import COMMAND, clean_environment

LINE = ("run", "line", "--runtime", "host", "--gpus", "4", "--gpus-per-node", "2", "--format", "json")
Within = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def within(slurm: Any, install: Path, tmp_path: Path) -> Within:
    """`within(("salloc", "-N2"), "run", …)`: llmbx, or any command, started by a command of Slurm's."""

    def start(outer: tuple[str, ...], *command: str, **more: str) -> subprocess.Popen[str]:
        env = clean_environment(install, SLURM_CONF=str(slurm.config), LLMBX_PYTHON=sys.executable, **more)
        return subprocess.Popen(
            [*outer, *command], env=env, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    return start


def llmbx_line(*more: str) -> str:
    return shlex.join([str(COMMAND), *LINE, *more])


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return record


def test_a_run_uses_the_allocation_and_leaves_it(
    within: Within, slurm: Any, only_run: Callable[..., Path], read_result: Callable[[Path], dict[str, Any]]
) -> None:
    after = 'echo "job $SLURM_JOB_ID"; squeue --noheader --jobs=$SLURM_JOB_ID --format=%T'
    # what the outer job was asked for must not decide what the steps are
    outer = ("salloc", "-N2", "--ntasks-per-node=8", "--cpus-per-task=2", "--distribution=cyclic", "bash", "-c")
    run = within(outer, f"{llmbx_line()} > out.json; {after}", LLMBX_RANK="7")
    out, err = run.communicate(timeout=PATIENCE_S)
    result = read_result(only_run())
    job = out.splitlines()[0].removeprefix("job ")
    assert (result["status"], result["data_valid"], result["job_id"], result["launcher"]) == (
        "completed", True, job, "slurm",
    ), err  # fmt: skip
    assert out.splitlines()[1] == "RUNNING"
    assert f"steps inside Slurm job {job} (" in err and "nothing is submitted" in err
    record = record_of(only_run())
    assert record["spec"]["origins"]["launcher"] == f"inside Slurm job {job}"
    log = next(only_run().glob("log-*.out")).read_text()
    assert sorted(line for line in log.splitlines() if "of 4, fault" in line) == [
        f"{rank}: toy rank {rank} of 4, fault none" for rank in range(4)
    ]
    sacct = slurm.call("squeue", "--states=all", "--noheader", "--format=%j", f"--jobs={job}")
    assert sacct.strip() == "interactive"  # the one job that there was


@pytest.mark.parametrize(
    ("outer", "more", "says"),
    [
        (("salloc", "-N1", "-n2"), (), "the run needs 2 nodes, but Slurm job"),
        (("salloc", "-N2", "-n2"), (), "the run's 4 ranks need 4 CPUs, but Slurm job"),
        (("srun", "-N2", "-n2", "--kill-on-bad-exit=0"), (), "start llmbx only once, it starts the ranks"),
    ],
)
def test_what_does_not_fit_is_refused(within: Within, outer: tuple[str, ...], more: tuple[str, ...], says: str) -> None:
    run = within(outer, str(COMMAND), *LINE, *more)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 2 and says in err, err


def test_a_shell_that_outlived_its_allocation_is_told_so(within: Within) -> None:
    run = within(("salloc", "-N1", "bash", "-c", "echo $SLURM_JOB_ID"))
    job = run.communicate(timeout=PATIENCE_S)[0].strip()
    stale = within((), str(COMMAND), *LINE, SLURM_JOB_ID=job)
    _, err = stale.communicate(timeout=PATIENCE_S)
    expected = f"SLURM_JOB_ID is set to {job}, but that job is not running (completed): run `unset SLURM_JOB_ID`"
    assert stale.returncode == 2 and expected in err


@pytest.mark.parametrize(
    "outer",
    [("sbatch", "--wait", "--output=batch.out", "-N2", "--ntasks-per-node=2", "--wrap"),
     ("srun", "-N1", "-n1", "-c2", "bash", "-c")],
    ids=["batch script", "one step"],
)  # fmt: skip
def test_a_script_and_a_step_of_the_users_own(
    within: Within, outer: tuple[str, ...], read_result: Callable[[Path], dict[str, Any]], only_run: Callable[..., Path]
) -> None:
    nodes = 2 if "-N2" in outer else 1
    line = llmbx_line("--gpus", str(nodes * 2))
    run = within(outer, line)
    out, err = run.communicate(timeout=PATIENCE_S)
    result = read_result(only_run())
    assert (result["status"], result["workload"]["gpus"]) == ("completed", nodes * 2), out + err
    assert record_of(only_run())["job"]["process"] is not None


def test_ctrl_c_ends_the_step_and_not_the_allocation(
    within: Within,
    slurm: Any,
    install: Path,
    only_run: Callable[..., Path],
    read_result: Callable[[Path], dict[str, Any]],
) -> None:
    line = llmbx_line("--set", "pace=0.2", "--steps", "500")
    after = "echo state $(squeue --noheader --jobs=$SLURM_JOB_ID --format=%T) steps $(squeue -h -s -j $SLURM_JOB_ID)"
    script = f"trap : INT; {line}; echo code $?; {after}; srun --overlap -N1 -n1 echo still usable"
    run = within(("salloc", "-N2", "--ntasks-per-node=2", "bash", "-c"), script)
    deadline = time.monotonic() + PATIENCE_S
    while not list(install.glob("workloads/*/experiments/*/*/*/log-*.out")) or "step 3/" not in next(
        only_run().glob("log-*.out")
    ).read_text(errors="replace"):
        assert time.monotonic() < deadline and run.poll() is None, run.communicate()
        time.sleep(0.1)
    record = record_of(only_run())
    os.kill(record["owner"]["pid"], signal.SIGINT)
    out, err = run.communicate(timeout=PATIENCE_S)
    assert "code 130" in out and "state RUNNING steps\n" in out and "still usable" in out, out + err
    result = read_result(only_run())
    assert (result["status"], result["exit_code"], result["job_id"]) == ("cancelled", 130, record["job"]["job_id"])
    assert result["cause"] == "interrupted by Ctrl-C"


def test_from_another_shell_the_run_is_followed_and_cancelled(
    within: Within,
    slurm: Any,
    install: Path,
    only_run: Callable[..., Path],
    read_result: Callable[[Path], dict[str, Any]],
) -> None:
    line = llmbx_line("--set", "pace=0.2", "--steps", "500", "--detach")
    run = within(
        ("salloc", "-N2", "--ntasks-per-node=2", "bash", "-c"), f"{line}; while [ ! -e go ]; do sleep 0.2; done"
    )
    deadline = time.monotonic() + PATIENCE_S
    while not list(install.glob("workloads/*/experiments/*/*/*/log-*.out")):
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.1)
    job = record_of(only_run())["job"]["job_id"]
    status = within((), str(COMMAND), "status", job, "--format", "json").communicate(timeout=PATIENCE_S)[0]
    assert json.loads(status)["status"] == "running" and json.loads(status)["job_id"] == job
    cancelled = within((), str(COMMAND), "cancel", job)
    cancelled.communicate(timeout=PATIENCE_S)
    assert cancelled.returncode == 0 and read_result(only_run())["status"] == "cancelled"
    assert slurm.call("squeue", "--noheader", f"--jobs={job}", "--format=%T").strip() == "RUNNING"
    (only_run().parents[5].parent / "go").touch()
    run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0


def test_an_allocation_that_ends_takes_the_run_with_it(
    within: Within,
    slurm: Any,
    install: Path,
    only_run: Callable[..., Path],
    read_result: Callable[[Path], dict[str, Any]],
) -> None:
    line = llmbx_line("--set", "pace=0.2", "--steps", "500")
    run = within(("salloc", "-N2", "--ntasks-per-node=2", "--no-shell"))
    run.communicate(timeout=PATIENCE_S)
    job = slurm.call("squeue", "--noheader", "--format=%i", "--states=running").split()[0]
    run = within((), *shlex.split(line), SLURM_JOB_ID=job)
    deadline = time.monotonic() + PATIENCE_S
    while not list(install.glob("workloads/*/experiments/*/*/*/log-*.out")):
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.1)
    time.sleep(1)
    slurm.call("scancel", job)
    _, err = run.communicate(timeout=PATIENCE_S)
    result = read_result(only_run())
    assert (run.returncode, result["status"]) == (1, "cancelled"), err
