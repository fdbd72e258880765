"""A job that can never start, or waits for too long, is cancelled, and the run says so with exit code 4."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import Unreachable
from llmbx.logs.parser import LogParser
from llmbx.model import Event, Job, JobStatus, RunSpec, Step
from llmbx.record.folder import Record, Run
from llmbx.run.cancellation import MARK, as_cancelled
from llmbx.run.follow import follow
from llmbx.run.pipeline import exit_code
from llmbx.run.result import build_result
from llmbx.run.verdict import judge
from llmbx.run.waiting import give_up

NEVER = JobStatus(state="pending", reason="it can never start (PartitionTimeLimit): too long", verdict="not_started")
WAITS = JobStatus(state="pending", reason="pending: Priority")
RUNS = JobStatus(state="running", started=1.0)
CANCELLED = JobStatus(state="ended", verdict="cancelled", reason="CANCELLED by 0")


class Scheduler:
    """A launcher's stand-in that reports these statuses, the last one for ever; then `after` once it has cancelled."""

    poll_s = 0.0
    remote = True

    def __init__(self, *statuses: JobStatus, after: JobStatus = CANCELLED, limit: float | None = None) -> None:
        self.statuses, self.after, self.limit = list(statuses), after, limit
        self.cancelled = 0
        self.reachable = True

    def status(self, job: Job, folder: Path) -> JobStatus:
        if self.cancelled:
            return self.after
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def cancel(self, job: Job, folder: Path) -> None:
        pytest.fail("a job that may have started in the meantime must not be stopped")

    def cancel_pending(self, job: Job, folder: Path) -> None:
        if not self.reachable:
            raise Unreachable("the controller cannot be reached")
        self.cancelled += 1

    def queue_limit(self, spec: RunSpec) -> tuple[float, str] | None:
        return None if self.limit is None else (self.limit, "the limit is max_wait=60 (--slurm-max-wait)")

    def outage_limit(self, spec: RunSpec) -> tuple[float, str] | None:
        return None


class Rounds(LogParser):
    """A framework without steps."""

    def feed(self, line: str) -> list[Step | Event]:
        return []


class Quiet:
    """Ignores the progress."""

    def step(self, step: Step) -> None: ...
    def event(self, event: Event) -> None: ...
    def status(self, status: JobStatus) -> None: ...


@pytest.fixture
def run(tmp_path: Path, make_spec: Callable[..., RunSpec]) -> Run:
    """A run that was submitted ten minutes ago."""
    job = Job(launcher="slurm", job_id="7", submitted=time.time() - 600)
    entry = Record(id="x1", run_id="r", spec=make_spec(), created=1.0, llmbx_version="0", command=(), job=job)
    return Run(folder=str(tmp_path), record=entry)


def followed(run: Run, launcher: Scheduler) -> JobStatus:
    return follow(run, launcher, Rounds, Quiet())  # type: ignore[arg-type]


def test_a_job_that_can_never_start_ends_the_run_with_exit_code_4(run: Run) -> None:
    launcher = Scheduler(WAITS, WAITS, NEVER)
    status = followed(run, launcher)
    assert launcher.cancelled == 1
    verdict = judge(run.record.spec, status, [], [])
    assert verdict.status == "failed" and not verdict.data_valid
    assert verdict.cause == "job 7 was cancelled: it can never start (PartitionTimeLimit): too long"
    from llmbx.measure.figures import measure

    result = build_result(run.record, status, measure(run.record.spec, [], None)).replace(status=verdict.status)
    assert exit_code(result) == 4


def test_a_job_that_waits_for_too_long_is_cancelled(run: Run) -> None:
    status = followed(run, Scheduler(WAITS, WAITS, limit=540.0))
    assert (status.exit_code, status.verdict) == (4, "not_started")
    assert status.reason == (
        "job 7 was cancelled: it waited 10 min in the queue (pending: Priority); "
        "the limit is max_wait=60 (--slurm-max-wait)"
    )


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_setting_the_clock_does_not_change_how_long_a_job_has_waited(
    run: Run, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    now, jumped = time.time(), 0.0
    monkeypatch.setattr(time, "time", lambda: now + jumped)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    launcher = Scheduler(WAITS, limit=660.0)
    assert give_up(run, launcher, WAITS) is None  # type: ignore[arg-type]
    jumped, now = jump_s, now + 30.0
    assert give_up(run, launcher, WAITS) is None and launcher.cancelled == 0  # type: ignore[arg-type]
    now += 31.0
    status = give_up(run, launcher, WAITS)  # type: ignore[arg-type]
    assert status is not None and "it waited 11 min" in status.reason


@pytest.mark.parametrize("limit", [None, 3600.0])
def test_a_job_within_the_limit_goes_on_waiting(run: Run, limit: float | None) -> None:
    launcher = Scheduler(WAITS, limit=limit)
    assert give_up(run, launcher, WAITS) is None and launcher.cancelled == 0  # type: ignore[arg-type]
    assert give_up(run, launcher, RUNS) is None  # type: ignore[arg-type]


def test_a_requeued_job_waits_anew(run: Run) -> None:
    """It was submitted long ago, but its earlier start wrote output a moment ago."""
    (run.path / "log-x.out").write_text("step 1\n")
    assert give_up(run, Scheduler(WAITS, limit=540.0), WAITS) is None  # type: ignore[arg-type]


def test_a_job_that_started_just_before_goes_on(run: Run) -> None:
    launcher = Scheduler(WAITS, after=RUNS, limit=1.0)
    assert give_up(run, launcher, WAITS) is None  # type: ignore[arg-type]
    assert launcher.cancelled == 1, "the scheduler cancels pending jobs only"


def test_a_scheduler_that_does_not_answer_is_asked_again(run: Run) -> None:
    launcher = Scheduler(NEVER)
    launcher.reachable = False
    assert give_up(run, launcher, NEVER) is None  # type: ignore[arg-type]
    launcher.reachable = True
    assert give_up(run, launcher, NEVER) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("later", [CANCELLED, JobStatus(state="lost", reason="the job is unknown")])
def test_the_reason_outlives_a_scheduler_that_is_slow_to_report_the_cancellation(
    run: Run, later: JobStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmbx.run.waiting.SETTLE_S", 0.0)
    assert give_up(run, Scheduler(NEVER, after=WAITS), NEVER) is None  # type: ignore[arg-type]
    status = as_cancelled(run.files, later)
    assert (status.exit_code, status.verdict) == (4, "not_started")
    assert status.reason == "job 7 was cancelled: it can never start (PartitionTimeLimit): too long"
    started = CANCELLED.replace(started=1.0)
    assert as_cancelled(run.files, started) == started


def test_a_job_that_its_user_cancelled_is_cancelled_even_if_it_could_never_start(run: Run) -> None:
    (run.path / MARK).touch()
    status = as_cancelled(run.files, NEVER.replace(state="ended", exit_code=4))
    assert (status.exit_code, status.verdict, status.reason) == (None, "cancelled", "cancelled by llmbx cancel")
