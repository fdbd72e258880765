"""A followed run: times of lines, steps from other files, and the same log again after the run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from llmbx.logs.lines import Line
from llmbx.logs.parser import LogParser, Record
from llmbx.model import Event, Job, JobStatus, RunSpec, Source, SourceRecord, Step
from llmbx.model.launch import LOCAL
from llmbx.plugins.log_parser import CheckedParser
from llmbx.plugins.manager import load
from llmbx.record import arrivals
from llmbx.record.folder import Record as RunRecord
from llmbx.record.folder import Run
from llmbx.run.collect import collect_run
from llmbx.run.follow import Follower, Masked


class Timed(LogParser):
    """A format whose log has no times: a step takes from its line to the next. Images are in another file."""

    first_step = 1
    sources = (Source(glob="images.jsonl", kind="jsonl"),)

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def feed(self, line: Line) -> Iterable[Record]:
        before, _ = self.lines[-1] if self.lines else line, self.lines.append(line)
        known = line.arrived is not None and before.arrived is not None and before is not line
        took = (line.arrived or 0.0) - (before.arrived or 0.0) if known else None
        return [Step(number=int(line.removeprefix("step ")), time_s=took)]

    def feed_record(self, record: SourceRecord) -> Iterable[Record]:
        return [Step(number=record.step or 0, loss=float(str(record.values["loss"])))]


def timed() -> CheckedParser:
    """The format with the readers that the plugins register."""
    return CheckedParser(Timed(), "plugin 'toy'", load().source_reader)


class Shown:
    """Collects what the user sees."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def step(self, step: Step) -> None:
        self.numbers.append(step.number)

    def event(self, event: Event) -> None:
        raise AssertionError(event)

    def status(self, status: JobStatus) -> None:
        raise AssertionError(status)


@pytest.fixture
def run(tmp_path: Path, make_spec: Callable[..., RunSpec]) -> Run:
    job = Job(launcher=LOCAL, job_id="7", submitted=0.0)
    record = RunRecord(id="x1", run_id="x_1", spec=make_spec(), created=0.0, llmbx_version="1", command=(), job=job)
    return Run(folder=str(tmp_path), record=record)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_have_the_times_of_their_reads_and_have_them_again_after_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000, 10_000))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    follower = Follower(run.log, Timed, Shown(), lambda at: None)
    append(run.log, "step 1\n")
    follower.read()
    for number in (2, 3, 4):
        append(run.log, f"step {number}\nste")
        follower.read()
        append(run.log, f"p {number * 10}\n")
    follower.close()
    seen: list[Line] = follower.parser._parser.lines
    arrived = [line.arrived for line in seen]
    assert arrived[0] is None, "it was there at the first read"
    assert all(at is not None for at in arrived[1:]) and arrived[1:] == sorted(arrived[1:])
    assert (seen[1], seen[2], seen[1].source) == ("step 2", "step 20", run.log.name)
    assert arrived[2] == arrived[3], "a line that was completed with the next one"
    arrivals.note(run, follower.arrivals, follower.all_reads)
    again = Timed()
    log = collect_run(again, run)
    known = [[(line, line.arrived, line.source) for line in lines] for lines in (seen, again.lines)]
    assert known[0] == known[1]
    assert [step.number for step in log.steps] == [1, 2, 3, 4, 20, 30, 40]


def test_without_a_follower_no_time_is_known(run: Run) -> None:
    append(run.log, "step 1\nstep 2\n")
    parser = Timed()
    assert [step.time_s for step in collect_run(parser, run).steps] == [None, None]
    assert [(line.arrived, line.source) for line in parser.lines] == [(None, run.log.name)] * 2


def test_the_times_of_another_job_are_not_used(run: Run) -> None:
    append(run.log, "step 1\n")
    arrivals.note(run, [], {arrivals.LOG: [(7, 5.0)]})
    parser, other = Timed(), Timed()
    collect_run(parser, run)
    job = run.record.job
    assert job is not None
    collect_run(other, run.replace(record=run.record.replace(job=job.replace(job_id="8"))))
    assert (parser.lines[0].arrived, other.lines[0].arrived) == (5.0, None)


def test_very_many_reads_are_thinned_and_stay_upper_limits(run: Run) -> None:
    reads: list[arrivals.Read] = []
    for n in range(1, 3 * arrivals.MOST):
        arrivals.add_read(reads, 10 * n, float(n))
    arrivals.note(run, [], {arrivals.LOG: reads, "a": reads, "b": reads})
    for kept in arrivals.reads_of(run).values():
        assert 1 < len(kept) <= arrivals.MOST / 3 + 1
        assert all(at is not None and at >= end / 10 for end, at in kept)
        assert kept[-1] == reads[-1], "no line is without a time"


def test_steps_of_other_files_appear_while_the_run_goes_on(run: Run) -> None:
    shown = Shown()
    follower = Follower(run.log, timed, shown, lambda at: None, sources_s=0.0)
    path = run.path / "images.jsonl"
    follower.read()
    append(path, json.dumps({"step": 1, "loss": 2.5}) + "\n" + '{"step": 2, "lo')
    follower.read()
    assert shown.numbers == [1]
    grown = follower.last_growth
    append(path, 'ss": 1.5}\n')
    append(path, json.dumps({"step": 3, "loss": 1.0}))
    follower.read()
    assert shown.numbers == [1, 2] and follower.last_growth > grown, "a run that writes there has not stalled"
    follower.close()
    assert shown.numbers == [1, 2, 3]
    assert [(step.number, step.loss) for step in collect_run(timed(), run).steps] == [(1, 2.5), (2, 1.5), (3, 1.0)]


class Tracked(Timed):
    """The same format with its losses in event files."""

    sources = (Source(glob="tb/**/events.out.tfevents.*", kind="tensorboard"),)


def tracked() -> CheckedParser:
    return CheckedParser(Tracked(), "plugin 'toy'", load().source_reader)


def test_steps_that_tensorboards_own_writer_writes_appear_while_the_run_goes_on(run: Run) -> None:
    from tensorboard.compat.proto.event_pb2 import Event as TensorBoardEvent
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    shown = Shown()
    follower = Follower(run.log, tracked, shown, lambda at: None, sources_s=0.0)
    follower.read()
    writer = EventFileWriter(str(run.path / "tb" / "rank-0"))
    for step in (1, 2, 3):
        summary = Summary(value=[Summary.Value(tag="loss", simple_value=1 / step)])
        writer.add_event(TensorBoardEvent(step=step, summary=summary))
        writer.flush()
        follower.read()
        assert shown.numbers == [*range(1, step + 1)]
    writer.close()
    follower.close()
    assert shown.numbers == [1, 2, 3]
    assert [(step.number, step.loss) for step in collect_run(tracked(), run).steps][1] == (2, 0.5)


def test_the_step_of_a_file_that_is_read_rarely_may_be_that_old(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    for clock in ("time", "monotonic"):
        monkeypatch.setattr(time, clock, lambda: now[0])
    follower = Follower(run.log, timed, Shown(), lambda at: None, sources_s=1.0)
    follower.read()
    append(run.path / "images.jsonl", json.dumps({"step": 1, "loss": 2.5}) + "\n")
    for _ in range(6):
        now[0] += 0.25
        follower.read()
    assert follower.arrivals == [(1, 1001.0, 1.0)], "it was written at most 1 s before"


@pytest.mark.parametrize("jump_s", [600.0, -3600.0])
def test_a_clock_that_is_set_changes_no_arrival(run: Run, monkeypatch: pytest.MonkeyPatch, jump_s: float) -> None:
    now, jumped = 1000.0, 0.0
    monkeypatch.setattr(time, "time", lambda: now + jumped)
    monkeypatch.setattr(time, "monotonic", lambda: now - 900.0)
    shown = Shown()
    follower = Follower(run.log, timed, shown, lambda at: None, sources_s=1.0)
    follower.read()
    for number in range(1, 5):
        now += 2.0
        jumped = jump_s if number > 2 else 0.0
        append(run.path / "images.jsonl", json.dumps({"step": number, "loss": 2.5}) + "\n")
        follower.read()
    assert shown.numbers == [1, 2, 3, 4], "other files are still read"
    assert follower.arrivals == [(number, 1000.0 + 2 * number, 2.0) for number in range(1, 5)]
    arrivals.note(run, follower.arrivals, follower.all_reads, follower.clock_set)
    assert json.loads((run.path / arrivals.FILE).read_text())["clock_set"] == [[1006.0, jump_s]], "both clocks are kept"


def test_secrets_in_other_files_are_overwritten_before_they_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hf_" + "a1B2" * 9
    monkeypatch.setenv("HF_TOKEN", secret)
    path = run.path / "images.jsonl"
    append(path, json.dumps({"step": 1, "loss": 2.5, "token": secret}) + "\n")
    Follower(run.log, timed, Shown(), lambda at: None, Masked(run, elsewhere=False)).read()
    assert secret not in path.read_text() and '"loss": 2.5' in path.read_text()


class Noting(Shown):
    """Collects notes, too."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def event(self, event: Event) -> None:
        self.notes.append(event.text)


@pytest.mark.parametrize("put", [os.mkfifo, lambda place: place.symlink_to("/dev/zero")])
def test_a_log_that_must_not_be_read_is_named_once_and_the_run_goes_on(put: Callable[[Path], None], run: Run) -> None:
    put(run.log)
    shown = Noting()
    follower = Follower(run.log, timed, shown, first=lambda at: None)
    for _ in range(3):
        follower.read()
    (note,) = shown.notes
    assert note.startswith(f"{run.log.name}: cannot be read: it is a ")
    log = collect_run(timed(), run)
    assert log.steps == [] and log.notes == (note,)
    run.log.unlink()
    append(run.log, "step 1\n")
    follower.read()
    assert shown.numbers == [1]
