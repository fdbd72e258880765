"""The supervisor of local runs: what it ends, when, and what it leaves alone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from llmbx.launchers import detached, processes, supervisor
from llmbx.launchers.local import LocalLauncher
from llmbx.model import Wrapping

from ...patience import wait_until
from .conftest import LocalRun, make_launch, make_spec

Start = Callable[..., LocalRun]

SUBMIT = (
    "import sys, msgspec, pathlib, time\n"
    "from llmbx.launchers.local import LocalLauncher\nfrom llmbx.model import RunSpec\n"
    "spec = msgspec.json.decode(sys.stdin.read(), type=RunSpec)\n"
    "folder = pathlib.Path(sys.argv[1])\n"
    "LocalLauncher().submit(folder / 'run.sh', spec, folder)\n"
    "print('submitted', flush=True)\ntime.sleep(600)\n"
)


def inside(folder: Path) -> list[psutil.Process]:
    """The living processes whose working folder is this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(folder):
                found.append(process)
    return found


def submit_elsewhere(folder: Path, program: str) -> subprocess.Popen[str]:
    """A process that has submitted a run of this program, and attends it."""
    launcher, spec = LocalLauncher(), make_spec()
    (folder / "run.sh").write_text(launcher.render(spec, make_launch(program), (Wrapping(),), folder))
    environ = {**os.environ, "LLMBX_STOP_GRACE_S": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SUBMIT, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environ,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(msgspec.json.encode(spec).decode())
    process.stdin.close()
    assert process.stdout.readline() == "submitted\n"
    return process


def test_a_run_ends_with_the_process_that_attends_it_and_says_so(tmp_path: Path) -> None:
    process = submit_elsewhere(tmp_path, "setsid sleep 600 & echo up; sleep 600")
    wait_until(lambda: any("up" in log.read_text() for log in tmp_path.glob("log-*.out")))
    process.kill()
    process.wait()
    wait_until(lambda: inside(tmp_path) == [])
    end = json.loads((tmp_path / "exit.json").read_text())
    assert (end["exit_code"], end["signal"]) == (143, "TERM")
    status = detached.status(f"{end['job_id']}-0", tmp_path, 0.0)
    assert (status.verdict, status.exit_code) == ("cancelled", 143)
    assert status.reason == "the llmbx that attended the run was killed, which ended the run"


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own that can be filled takes root to mount")
def test_a_run_on_a_full_disk_ends_too(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
    try:
        process = submit_elsewhere(disk, "head -c 1000000 /dev/zero > fill; setsid sleep 600 & sleep 600")
        wait_until(lambda: (disk / "fill").is_file() and any(p.name() == "sleep" for p in inside(disk)))
        process.kill()
        process.wait()
        wait_until(lambda: inside(disk) == [])
        assert json.loads((disk / "exit.json").read_text())["signal"] == "TERM"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_what_a_run_leaves_behind_in_another_session_is_ended_after_it(start: Start) -> None:
    run = start(make_launch("setsid sh -c 'trap \"\" TERM; echo left; while :; do sleep 1; done' & sleep 1"))
    assert run.end().exit_code == 0
    run.wait_until_gone()
    wait_until(lambda: inside(run.folder) == [])
    assert run.log == "left\n"


def test_a_process_that_cleans_up_after_the_run_is_not_ended(start: Start) -> None:
    tidies = "LLMBX_OUTLIVES_RUN=1 setsid sh -c 'until [ -e go ]; do sleep 0.1; done; touch tidied'"
    run = start(make_launch(f"{tidies} & echo up; sleep 600"))
    run.wait_for("up")
    run.launcher.cancel(run.job, run.folder)
    run.wait_until_gone()
    assert len(inside(run.folder)) >= 1
    (run.folder / "go").touch()
    wait_until(lambda: (run.folder / "tidied").exists() and inside(run.folder) == [])


def test_a_script_that_hangs_in_its_setup_is_ended_and_recorded(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the script starts to record its end is not killed, on a busy machine either."""
    (tmp_path / "date").write_text('#!/bin/sh\nsleep 0.5\nexec /bin/date "$@"\n')
    (tmp_path / "date").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LLMBX_STOP_GRACE_S", "0")
    run = start(make_launch("true"), make_spec(setup=("touch here; sleep 600",)))
    wait_until(lambda: (run.folder / "here").exists())
    run.launcher.cancel(run.job, run.folder)
    assert (run.status().verdict, inside(run.folder)) == ("cancelled", [])


def test_stopped_processes_get_their_chance_and_end(start: Start) -> None:
    run = start(make_launch("trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.1; done"))
    run.wait_for("up")
    for process in inside(run.folder):
        process.suspend()
    run.launcher.cancel(run.job, run.folder)
    assert "saved" in run.log and inside(run.folder) == []
    assert run.status().verdict == "cancelled"


def test_a_run_without_its_supervisor_can_still_be_cancelled(start: Start) -> None:
    run = start(make_launch("echo up; sleep 600"))
    run.wait_for("up")
    found = processes.look(run.job.job_id, run.folder)
    assert found.supervisor is not None and found.leader is not None
    os.kill(found.supervisor.pid, signal.SIGKILL)
    wait_until(lambda: processes.look(run.job.job_id, run.folder).supervisor is None)
    assert run.status().state == "running"
    run.launcher.cancel(run.job, run.folder)
    assert run.status().verdict == "cancelled" and inside(run.folder) == []


def test_a_process_id_in_use_again_is_not_signalled() -> None:
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        known = supervisor.read_process(bystander.pid)
        assert known is not None
        supervisor.send(supervisor.Process(known.pid, known.start - 1), signal.SIGKILL)
        time.sleep(0.2)
        assert bystander.poll() is None
        supervisor.send(known, signal.SIGKILL)
        assert bystander.wait() == -signal.SIGKILL
    finally:
        bystander.kill()


def test_a_script_that_ends_at_once_has_its_exit_code(start: Start) -> None:
    run = start(make_launch("true"), make_spec(setup=("exit 3",)))
    assert run.end().exit_code == 3


def test_many_runs_of_one_process_leave_no_zombies_and_no_open_files(start: Start) -> None:
    def open_files() -> int:
        return len([*Path("/proc/self/fd").iterdir()])

    def finished() -> None:
        run = start(make_launch("true"))
        run.end()
        wait_until(lambda: processes.look(run.job.job_id, run.folder).supervisor is None)

    finished()
    before = open_files()
    for _ in range(3):
        finished()
    assert open_files() <= before + 1
    zombies = [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]
    assert len(zombies) <= 1


def test_a_launcher_without_bash_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.sh").write_text("true\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(detached.InfraError, match=r"run\.sh could not be started: bash: No such file"):
        detached.start(tmp_path / "run.sh", tmp_path / "out", tmp_path)
