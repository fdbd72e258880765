"""A result that llmbx wrote is told from one that the job left in its folder: by its digest, never by times."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.errors import LlmbxError
from llmbx.model import Job, Result, RunSpec
from llmbx.record.folder import RESULT, STEPS, Run, new_record, read_result, read_run, write_record, write_result
from llmbx.run.own_result import LEFT, left_result, own_result

END = {"exit_code": 0, "started": 1.0, "ended": 2.0, "job_id": "7", "host": "h"}


@pytest.fixture
def run(tmp_path: Path, make_spec: Callable[..., RunSpec]) -> Run:
    """A run that has ended, whose result llmbx wrote."""
    folder = tmp_path / "run"
    folder.mkdir()
    record = new_record("run_1", id="x1", spec=make_spec(), command=()).replace(
        job=Job(launcher="local", job_id="7-1", submitted=1.0)
    )
    write_record(folder, record)
    (folder / "exit.json").write_text(json.dumps(END))
    (folder / STEPS).write_text("")
    write_result(folder, Result(run_id="run_1", status="completed", data_valid=True, tokens_per_s=1e3 / 3))
    return Run(folder=str(folder), record=record)


def of_the_job(run: Run, **members: Any) -> None:
    own = {"run_id": "mine", "status": "completed", "data_valid": True, **members}
    (run.path / RESULT).write_text(json.dumps(own))


@pytest.mark.parametrize("order", [(RESULT, "exit.json"), ("exit.json", RESULT)])
def test_a_copy_without_times_keeps_its_result(run: Run, tmp_path: Path, order: tuple[str, str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy, copy_function=shutil.copyfile)
    for at, name in enumerate(order):
        os.utime(copy / name, (1000.0 + at, 1000.0 + at))
    assert own_result(read_run(copy)) == read_result(run.path)
    assert left_result(copy) == () and (copy / RESULT).exists()


def test_the_layout_of_the_file_does_not_matter(run: Run) -> None:
    path = run.path / RESULT
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert own_result(run) is not None
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert own_result(run) is not None


@pytest.mark.parametrize("when", ["before the end", "with the end", "after the end"])
@pytest.mark.parametrize("members", [{}, {"run_id": "run_1"}, {"run_id": "run_1", "digest": "0" * 64}])
def test_a_result_of_the_job_is_set_aside_whenever_it_was_written(run: Run, when: str, members: dict[str, str]) -> None:
    of_the_job(run, **members)
    at = (run.path / "exit.json").stat().st_mtime + {"before the end": -9, "with the end": 0, "after the end": 9}[when]
    os.utime(run.path / RESULT, (at, at))
    assert own_result(run) is None
    assert json.loads((run.path / LEFT).read_text())["status"] == "completed" and not (run.path / RESULT).exists()
    assert LEFT in left_result(run.path)[0]


def test_the_result_of_another_run_is_set_aside(run: Run) -> None:
    write_result(run.path, Result(run_id="run_2", status="completed", data_valid=True))
    assert own_result(run) is None and (run.path / LEFT).exists()


def test_figures_that_were_changed_are_not_those_of_llmbx(run: Run) -> None:
    path = run.path / RESULT
    path.write_text(path.read_text().replace('"tokens_per_s": 333', '"tokens_per_s": 999'))
    assert own_result(run) is None and (run.path / LEFT).exists()


def test_a_damaged_result_is_an_error_and_stays(run: Run) -> None:
    path = run.path / RESULT
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(LlmbxError, match=r"result\.json"):
        own_result(run)
    assert path.exists() and not (run.path / LEFT).exists()


def test_what_cannot_be_read_is_of_the_job_if_llmbx_has_written_nothing_yet(run: Run) -> None:
    (run.path / STEPS).unlink()
    (run.path / RESULT).write_text("accuracy: 0.9")
    assert own_result(run) is None and (run.path / LEFT).read_text() == "accuracy: 0.9"


def test_no_result_is_no_finding(run: Run) -> None:
    (run.path / RESULT).unlink()
    assert own_result(run) is None and left_result(run.path) == ()
