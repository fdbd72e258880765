"""Time to the first step: observed while the run is followed, never estimated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from llmbx.clock import boot_id, elapsed, lasted_s, since_boot_s
from llmbx.logs.parser import LogParser
from llmbx.model import Event, Job, JobStatus, RunSpec, SinceBoot, Step
from llmbx.record.first_step import seconds
from llmbx.record.folder import Record, Run
from llmbx.run.follow import follow


class Rounds(LogParser):
    """A framework whose log has one line a step."""

    def feed(self, line: str) -> Iterable[Step | Event]:
        return [Step(number=1)] if line.startswith("step") else []


class Quiet:
    def step(self, step: Step) -> None: ...
    def event(self, event: Event) -> None: ...
    def status(self, status: JobStatus) -> None: ...


class Script:
    """A stand-in for a launcher: its job writes a line each time it is asked for its status, then it has ended."""

    remote = False
    poll_s = 0.0

    def __init__(self, log: Path, lines: list[str]) -> None:
        self.log, self.lines = log, lines

    def status(self, job: Job, folder: Path) -> JobStatus:
        if not self.lines:
            return JobStatus(state="ended", exit_code=0)
        with self.log.open("a") as log:
            log.write(self.lines.pop(0) + "\n")
        return JobStatus(state="running", started=1.0)

    def outage_limit(self, spec: RunSpec) -> None: ...


def followed(
    folder: Path,
    make_spec: Callable[..., RunSpec],
    lines: list[str],
    before: str = "",
    job: str = "1",
    submitted: float = 1.0,
) -> Run:
    folder.mkdir(exist_ok=True)
    entry = Record(id="x1", run_id="r", spec=make_spec(), created=1.0, llmbx_version="0", command=(),
                   job=Job(launcher="script", job_id=job, submitted=submitted))  # fmt: skip
    run = Run(folder=str(folder), record=entry)
    run.log.write_text(before)
    follow(run, Script(run.log, lines), Rounds, Quiet())  # type: ignore[arg-type]
    return run


def ran(started: float, ended: float | None = None, since_boot: SinceBoot | None = None) -> JobStatus:
    return JobStatus(state="ended", started=started, ended=ended, since_boot=since_boot)


def test_it_is_the_time_at_which_the_first_steps_line_was_seen(
    tmp_path: Path, make_spec: Callable[..., RunSpec]
) -> None:
    began = time.time()
    run = followed(tmp_path, make_spec, ["loading", "compiling", "step 1", "step 2"])
    found = seconds(run, ran(began))
    assert found is not None and 0.3 < found <= time.time() - began
    assert seconds(run, ran(began, began + 0.1)) == pytest.approx(0.1), "it was done before the ranks ended"


def test_a_clock_that_was_set_before_the_first_step_does_not_change_its_time(
    tmp_path: Path, make_spec: Callable[..., RunSpec]
) -> None:
    began, uptime = time.time(), since_boot_s()
    assert uptime is not None
    run = followed(tmp_path, make_spec, ["loading", "compiling", "step 1", "step 2"])
    ranks = SinceBoot(boot_id=boot_id(), started=uptime, ended=uptime + 9.0)
    for set_by in (600.0, -3600.0):
        status = ran(began + set_by, began + 9.0, ranks)
        found = seconds(run, status)
        assert found is not None and 0.3 < found <= 9.0 and lasted_s(status) == pytest.approx(9.0)
    elsewhere = ran(began, began + 9.0, ranks.replace(boot_id="another machine", started=0.0, ended=1.0))
    assert (seconds(run, elsewhere) or 0.0) > 0.3


def test_a_step_that_was_there_before_anybody_looked_has_no_time(
    tmp_path: Path, make_spec: Callable[..., RunSpec]
) -> None:
    run = followed(tmp_path, make_spec, ["step 2", "step 3"], before="step 1\n")
    assert seconds(run, ran(1.0)) is None and not (tmp_path / "first_step.json").exists()


def test_a_job_that_makes_its_first_step_while_it_is_submitted_has_a_time(
    tmp_path: Path, make_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmbx.run.follow.SOON_S", 600.0)  # on the busiest machine
    submitted = time.time()
    run = followed(tmp_path, make_spec, ["step 2"], before="step 1\n", submitted=submitted)
    first_step_s = seconds(run, ran(submitted))
    assert first_step_s is not None and 0 <= first_step_s <= time.time() - submitted


def test_a_step_that_comes_while_the_launcher_is_asked_for_the_first_time_has_a_time(
    tmp_path: Path, make_spec: Callable[..., RunSpec]
) -> None:
    run = followed(tmp_path, make_spec, ["step 1", "step 2"])
    assert seconds(run, ran(1.0)) is not None


def test_another_attempts_first_step_does_not_count(tmp_path: Path, make_spec: Callable[..., RunSpec]) -> None:
    first = followed(tmp_path, make_spec, ["loading", "loading", "step 1"], job="1")
    assert seconds(first, ran(1.0)) is not None
    other = first.replace(record=first.record.replace(job=Job(launcher="script", job_id="2", submitted=2.0)))
    assert seconds(other, ran(1.0)) is None
    again = followed(tmp_path, make_spec, ["loading", "loading", "step 1"], job="2")
    assert seconds(again, ran(1.0)) is not None


@pytest.mark.parametrize(
    ("begun", "done", "seconds_"),
    [(10.0, 12.5, 2.5), (10.0, 9.1, 0.0), (10.0, 10.0 - 3600, None), (None, 1.0, None), (1.0, None, None)],
)
def test_a_clock_that_was_set_back_gives_no_time(
    begun: float | None, done: float | None, seconds_: float | None
) -> None:
    assert elapsed(begun, done) == seconds_
