"""Finding the job of a run folder without a recorded job id."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from llmbx.errors import InfraError, Unreachable
from llmbx.launchers import processes
from llmbx_slurm import find

from ...core.launchers.conftest import make_spec

SPEC = make_spec(launcher="slurm")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | Exception]:
    """The output of each Slurm command, by name; tests change it."""
    answers: dict[str, str | Exception] = {"squeue": "", "sacct": InfraError("accounting storage is disabled")}

    def answer(command: str, *arguments: str) -> str:
        said = answers[command]
        if isinstance(said, Exception):
            raise said
        return said

    monkeypatch.setattr(find, "call", answer)
    return answers


def folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def test_a_waiting_job_is_known_by_its_folder(asked: dict[str, str | Exception], tmp_path: Path) -> None:
    mine, other = folder(tmp_path, "run | 1"), folder(tmp_path, "run 2")
    (tmp_path / "link").symlink_to(mine)
    asked["squeue"] = f"7|{os.path.realpath(mine)}\n11|{os.path.realpath(mine)}\n8|{other}/deeper\n9|/elsewhere\n"
    found = find.find_jobs({tmp_path / "link": SPEC, other: SPEC})
    assert {path.name: job.job_id for path, job in found.items()} == {"link": "11"}  # the newest of the folder


def test_a_script_that_started_names_its_job(asked: dict[str, str | Exception], tmp_path: Path) -> None:
    run = folder(tmp_path, "run")
    lines = (
        "2026-11-21T10:00:00+0000 llmbx: starts as 41 on n1\nx\n2026-11-21T10:00:05+0000 llmbx: starts as 42 on n2\n"
    )
    (run / f"sbatch_{SPEC.experiment}.out").write_text(lines)
    asked["squeue"] = Unreachable("squeue: no controller")
    found = find.find_jobs({run: SPEC})
    assert (found[run].job_id, found[run].submitted) == ("42", 1795255205.0)
    there = find.find_jobs({run: SPEC.replace(plugin_settings={"slurm": {"sbatch": {"clusters": "east"}}})})
    assert there[run].job_id == "42;east"


def test_accounting_remembers_what_the_controller_forgot(asked: dict[str, str | Exception], tmp_path: Path) -> None:
    run = folder(tmp_path, "run")
    asked["sacct"] = f"77|{run}\n78|/elsewhere\n"
    assert find.find_jobs({run: SPEC})[run].job_id == "77"


def test_silence_is_no_answer(asked: dict[str, str | Exception], tmp_path: Path) -> None:
    run = folder(tmp_path, "run")
    for command in ("sacct", "squeue"):
        asked[command] = Unreachable(f"{command}: no controller")
        with pytest.raises(Unreachable):
            find.find_jobs({run: SPEC})


def test_a_run_inside_an_allocation_is_its_process_and_never_the_whole_allocation(
    asked: dict[str, str | Exception], tmp_path: Path
) -> None:
    run = folder(tmp_path, "run")
    (run / "run.sh").write_text("#!/bin/bash\njob_id=7\n")  # made for an allocation: no options of sbatch
    (run / f"sbatch_{SPEC.experiment}.out").write_text("2026-11-21T10:00:00+0000 llmbx: starts as 7 on n1\n")
    asked["squeue"] = f"7|{run}\n"
    assert find.find_jobs({run: SPEC}) == {}  # it has ended without an exit file
    end = {"exit_code": 3, "started": 1.0, "ended": 2.0, "job_id": "7", "host": "n1"}
    (run / "exit.json").write_text(json.dumps(end))
    job = find.find_jobs({run: SPEC})[run]
    assert job.process is not None and processes.look(job.process, run).all == ()
    (run / "run.sh").write_text("#!/bin/bash\nread -r\n")
    program = subprocess.Popen(["bash", str(run / "run.sh")], stdin=subprocess.PIPE)
    try:
        wait_for_bash(program.pid)
        living = find.find_jobs({run: SPEC})[run]
        assert living.process is not None
        leader = processes.look(living.process, run).leader
        assert leader is not None and leader.pid == program.pid
    finally:
        program.communicate(b"\n")


def wait_for_bash(pid: int) -> None:
    """Wait until the process has executed bash and is no longer a fork of this one."""
    while b"run.sh" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.01)
