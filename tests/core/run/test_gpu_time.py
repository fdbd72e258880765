"""GPU-hours count every attempt, also those that were lost; what is unknown is not left out silently."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from llmbx.measure.figures import measure
from llmbx.model import JobStatus
from llmbx.model.run_folder import batch_name
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run, write_result
from llmbx.run.assess import assess
from llmbx.run.result import build_result, gpu_time

from ...run_factory import RunFactory, install, plugins, run_factory, spec, toy

__all__ = ["install", "plugins", "run_factory", "spec", "toy"]

BEGIN = 1_800_000_000


@pytest.fixture
def run(run_factory: RunFactory) -> Run:
    """A run on 8 GPUs whose last attempt has no files yet."""
    made = run_factory.put([1.0] * 5, gpu_type="h100", gpus=8)
    (made.path / "result.json").unlink()
    return made


def write(folder: Path, run: Run, *starts: float, until: float | None = None) -> None:
    """The script's output with these starts, and a log that was last written `until`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{datetime.fromtimestamp(at, UTC).isoformat()} llmbx: starts as 7 on n1\n" for at in starts]
    for name, text in ((batch_name(run.record.spec), "".join(lines)), ("log-x.out", "step 1\n")):
        if starts or name.startswith("log"):
            (folder / name).write_text(text)
            os.utime(folder / name, (until or BEGIN, until or BEGIN))


def ended(folder: Path, started: float, end: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"exit_code": 1, "started": started, "ended": end, "job_id": "7", "host": "n1"}
    (folder / "exit.json").write_text(json.dumps(facts))


def test_one_attempt_is_its_own_time(run: Run) -> None:
    write(run.path, run, BEGIN)
    assert gpu_time(run, 3600.0).hours == 8.0


def test_a_retried_attempt_counts_with_the_time_in_its_result(run: Run) -> None:
    """llmbx keeps the result of each attempt that it retries."""
    write(run.path, run, BEGIN)
    folder = run.path / "attempts/0"
    write(folder, run, BEGIN - 9000)
    status = JobStatus(state="ended", exit_code=1, verdict="node_fail", started=BEGIN - 9000, ended=BEGIN - 7200)
    write_result(folder, build_result(run.record, status, measure(run.record.spec, [], None)))
    found = gpu_time(run, 3600.0)
    assert found.hours == 12.0 and found.warnings == ()


def test_a_job_that_slurm_requeued_counts_each_of_its_starts(run: Run) -> None:
    """The script of a later start moves the files away; the output with the lines of all starts stays."""
    write(run.path, run, BEGIN, BEGIN + 3600, BEGIN + 7200, until=BEGIN + 9000)
    ended(run.path / "attempts/0", BEGIN, BEGIN + 1800)
    write(run.path / "attempts/1", run, until=BEGIN + 3600 + 900)
    found = gpu_time(run, 1800.0)
    assert found.hours == 8 * (1800 + 900 + 1800) / 3600
    assert found.warnings == ("the end of attempt 1 was not recorded: its GPU-hours count until its last output",)


def test_a_lost_job_counts_until_its_last_output(run: Run) -> None:
    write(run.path, run, BEGIN, until=BEGIN + 450)
    found = gpu_time(run, None)
    assert found.hours == 1.0 and "attempt 0 was not recorded" in found.warnings[0]


def test_a_retry_that_never_started_adds_nothing(run: Run) -> None:
    write(run.path / "attempts/0", run, BEGIN, until=BEGIN + 900)
    assert gpu_time(run, None).hours == 2.0


def test_an_attempt_without_any_time_makes_the_sum_unknown(run: Run) -> None:
    write(run.path, run, BEGIN)
    (run.path / "attempts/0").mkdir(parents=True)
    found = gpu_time(run, 3600.0)
    assert found.hours is None and found.warnings == ("GPU-hours are unknown: attempt 0 recorded no time",)


def test_what_a_job_leaves_in_its_folder_does_not_end_the_assessment(run: Run) -> None:
    """A dangling link, a damaged result, a name that only looks like a number, a line that only looks like a start."""
    write(run.path, run, BEGIN, until=BEGIN + 900)
    with (run.path / batch_name(run.record.spec)).open("a") as file:
        file.write("2027-99-99Tnever llmbx: starts as 7 on n1\n")
    for name in ("0", "²", "x"):
        (run.path / "attempts" / name).mkdir(parents=True)
    (run.path / "attempts/1").write_text("a file")
    (run.path / "attempts/0/result.json").write_text("{")
    write(run.path / "attempts/0", run, BEGIN - 9000, until=BEGIN - 9000 + 450)
    (run.path / "attempts/0/gone.out").symlink_to("nowhere")
    os.utime(run.path / "attempts/0/gone.out", (BEGIN - 9000, BEGIN - 9000), follow_symlinks=False)
    found = gpu_time(run, 450.0)
    assert found.hours == 2.0, found.warnings


def test_without_gpus_or_a_start_there_are_none(run: Run) -> None:
    assert gpu_time(run, None).hours is None
    on_cpu = run.replace(record=run.record.replace(spec=run.record.spec.replace(gpu_type="cpu")))
    assert gpu_time(on_cpu, 3600.0).hours is None


def test_the_result_has_the_sum(run: Run, plugins: Plugins) -> None:
    write(run.path, run, BEGIN)
    write(run.path / "attempts/0", run, BEGIN - 9000, until=BEGIN - 9000 + 3600)
    status = JobStatus(state="ended", exit_code=1, started=BEGIN, ended=BEGIN + 1800)
    result = assess(run, plugins, status).result
    assert result.gpu_hours == 12.0 and any("attempt 0 was not recorded" in line for line in result.warnings)
