"""Archiving of earlier attempts: complete, once, and only by the owner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.launchers.local import LocalLauncher
from llmbx.model import Job, Owner, RunSpec
from llmbx.record.attempts import archive, next_folder, stored_attempts
from llmbx.record.folder import Record, Run, read_run, write_record
from llmbx.record.host import myself
from llmbx.run.retry import may_take_over, take_over

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


class Batch(LocalLauncher):
    """A launcher whose jobs outlive llmbx."""

    attended = False


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
    job = Job(launcher="batch", job_id="7", submitted=1.0, process=process)
    record = Record(
        id="x1", run_id="x_1", spec=make_spec(retries=2), created=1.0, llmbx_version="0", command=(), owner=owner,
        job=job, attempt=attempt,
    )  # fmt: skip
    run = Run(folder=str(tmp_path), record=record)
    assert may_take_over(run, Batch()) is expected
    write_record(tmp_path, record)
    assert take_over(run).record.owner == read_run(tmp_path).record.owner == myself()
