"""Archiving of earlier attempts: complete, once, and only by the owner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.model import Job, Owner, RunSpec
from llmbx.record.attempts import archive, next_folder, stored_attempts
from llmbx.record.folder import Record, Run, read_run, write_record
from llmbx.record.host import myself
from llmbx.run.retry import may_take_over, take_over
from llmbx_slurm.evidence import read_step_evidence
from llmbx_slurm.launcher import SlurmLauncher

Make = Callable[..., RunSpec]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_files_of_an_attempt_are_archived(tmp_path: Path) -> None:
    for name in ("run.json", "tags.json", "log-x.out", "exit.json", ".exit.json", "run.sh", ".tags.json.lock"):
        (tmp_path / name).write_text(name)
    (tmp_path / "nsys_profile").mkdir()
    assert stored_attempts(tmp_path) == 0
    folder = next_folder(tmp_path)
    archive(tmp_path, folder)
    assert names(tmp_path) == [".tags.json.lock", "attempts", "run.json", "tags.json"]
    assert names(folder) == [".exit.json", "exit.json", "log-x.out", "nsys_profile", "run.sh"]
    assert stored_attempts(tmp_path) == 1


def test_an_attempt_archived_by_the_scheduler_counts(tmp_path: Path) -> None:
    (tmp_path / "attempts" / "0").mkdir(parents=True)
    assert next_folder(tmp_path) == tmp_path / "attempts" / "1"
    assert stored_attempts(tmp_path) == 2


GONE = Owner(pid=2**22 + 1, started=1.0, host=myself().host)
ELSEWHERE = GONE.replace(host="another")


@pytest.mark.parametrize(
    ("owner", "attempt", "process", "expected"),
    [
        (GONE, 0, None, True), (None, 0, None, True), (GONE, 2, None, False), (ELSEWHERE, 0, None, False),
        (GONE, 0, "7-1", False), (myself(), 0, None, True),
    ],
)  # fmt: skip
def test_who_may_go_on_with_a_run(
    make_spec: Make, tmp_path: Path, owner: Owner | None, attempt: int, process: str | None, expected: bool
) -> None:
    job = Job(launcher="slurm", job_id="7", submitted=1.0, process=process)
    record = Record(
        run_id="x_1", spec=make_spec(retries=2), created=1.0, llmbx_version="0", command=(), owner=owner, job=job,
        attempt=attempt,
    )  # fmt: skip
    run = Run(folder=str(tmp_path), record=record)
    assert may_take_over(run, SlurmLauncher()) is expected
    write_record(tmp_path, record)
    assert take_over(run).record.owner == read_run(tmp_path).record.owner == myself()


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("0: slurmstepd-n1: error: StepId=7.0 exceeded memory limit (2 > 1), being killed", "out_of_memory"),
        ("0: slurmstepd-n1: error: *** STEP 8.0 ON n1 CANCELLED AT x DUE TO PREEMPTION ***", "preempted"),
        ("0: slurmstepd-n1: error: *** STEP 8.0 ON n1 CANCELLED AT x ***", None),
    ],
)
def test_what_slurmstepd_says_in_the_log_of_the_ranks(tmp_path: Path, line: str, verdict: str | None) -> None:
    log = tmp_path / "log-x.out"
    log.write_text(f"1: something\n{line}\n")
    assert read_step_evidence(log).verdict == verdict
