"""The driver with a fake scheduler: job limits, outages, rejected submissions, interruptions."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from llmbx.errors import InfraError, Unreachable
from llmbx.model import Job, JobStatus, Result, RunSpec
from llmbx.record.folder import Record, Run, write_record
from llmbx.run.pipeline import Runner
from llmbx_sweep import drive
from llmbx_sweep.drive import Driver
from llmbx_sweep.start import SubmissionRejected, SubmissionUnknown
from llmbx_sweep.state import Slot, SweepState

from .conftest import made_result


class FakeScheduler:
    """Starts no processes. A job ends when its status is queried the second time; `most` is the peak number of jobs."""

    attended = False
    poll_s = 0.0

    def __init__(self, folder: Path, spec: RunSpec) -> None:
        self.folder, self.spec = folder, spec
        self.lock = threading.Lock()
        self.started: list[Slot] = []
        self.alive: dict[str, int] = {}
        self.most = self.questions = 0
        self.watched: list[int] = []
        self.silent: set[int] = set()  # numbers of submissions without an answer; odd ones have created a job
        self.refused: set[int] = set()
        self.why = "sbatch: invalid partition"
        self.quiet = 0
        self.lost: dict[Path, str] = {}
        nothing: Any = None
        self.runner = FakeRunner(nothing, nothing, nothing, cast(Any, self), nothing)
        self.runners = defaultdict(lambda: self.runner)
        self.tried_again: list[str] = []
        self.cancelled: dict[str, int] = {}  # by job: the query that finds it cancelled

    def prepare(self, keys: list[str], progress: Any) -> None:
        """Images need no preparation."""

    def start(self, slot: Slot) -> Run:
        with self.lock:
            number = len(self.started)
            self.started.append(slot)
            folder = self.folder / str(number)
            record = Record(id="x1", run_id=f"r_{number}", spec=self.spec, created=number, llmbx_version="", command=())
            write_record(folder, record)
            if number in self.refused:
                raise SubmissionRejected(
                    made_result(status="failed", data_valid=False, exit_code=4), InfraError(self.why)
                )
            if number in self.silent:
                if number % 2:
                    self.lost[folder] = str(number)
                raise SubmissionUnknown(Run(folder=str(folder), record=record), Unreachable("no controller"))
            self.alive[str(number)] = 0
            self.most = max(self.most, len(self.alive))
            job = Job(launcher="slurm", job_id=str(number), submitted=0)
            return Run(folder=str(folder), record=record.replace(job=job))

    def watch(self, jobs: Sequence[Job]) -> None:
        self.watched.append(len(jobs))

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        with self.lock:
            found = {run: job for run, job in self.lost.items() if run in runs}
            self.alive.update(dict.fromkeys(found.values(), 0))
        return {run: Job(launcher="slurm", job_id=job, submitted=0) for run, job in found.items()}

    def cancel(self, job: Job, run_dir: Path) -> None:
        raise AssertionError("nothing is to be cancelled")

    def status(self, job: Job, run_dir: Path) -> JobStatus:
        with self.lock:
            if self.quiet:
                self.quiet -= 1
                raise Unreachable("no controller")
            self.alive[job.job_id] += 1
            if self.alive[job.job_id] == self.cancelled.get(job.job_id):
                del self.alive[job.job_id]
                return JobStatus(state="ended", exit_code=143, verdict="cancelled")
            if self.alive[job.job_id] < 2:
                return JobStatus(state="running")
            del self.alive[job.job_id]
            return JobStatus(state="ended", exit_code=0)


class Listener:
    """Records what it receives. `stop_at` is the number of ended runs after which Ctrl-C is pressed."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.ends: list[Slot] = []
        self.stop_at: int | None = None

    def ended(self, slot: Slot, result: Result, ended: int, running: int, waiting: int) -> None:
        self.ends.append(slot)
        if len(self.ends) == self.stop_at:
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        self.notes.append(text)


class FakeRunner(Runner):
    """Concludes runs without reading their logs."""

    launcher: Any

    def conclude(self, run: Run, status: JobStatus) -> Result:
        return made_result(run.record.run_id, status=_status(status), data_valid=status.exit_code == 0)

    def close(self, run: Run, status: JobStatus, report: Callable[[str], None]) -> Result | Run:
        if run.record.run_id in self.launcher.tried_again:
            self.launcher.tried_again.remove(run.record.run_id)
            report(f"{run.record.run_id} is tried again")
            self.launcher.alive["again"] = 0
            return run.replace(record=run.record.replace(job=Job(launcher="slurm", job_id="again", submitted=0)))
        return self.conclude(run, status)


@pytest.fixture
def scheduler(tmp_path: Path, make_spec: Any, monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    monkeypatch.setattr(drive, "BACKOFF_S", 0.05)
    monkeypatch.setattr(drive, "LOOP_S", 0.001)
    return FakeScheduler(tmp_path, make_spec())


def _status(status: JobStatus) -> str:
    return "completed" if status.exit_code == 0 else status.verdict or "lost"


def slots(count: int) -> tuple[Slot, ...]:
    return tuple((f"cell {number % 3}", number // 3 + 1) for number in range(count))


def driver(
    scheduler: Any, missing: tuple[Slot, ...], max_jobs: int = 10, patient: bool = False, **there: Any
) -> tuple[Driver, Listener]:
    listener: Any = Listener()
    state = SweepState(done=there.get("done", {}), running=there.get("running", {}), missing=missing)
    return Driver(scheduler, state, scheduler.runner, listener, max_jobs, patient), listener


def test_all_runs_complete_within_the_job_limit(scheduler: FakeScheduler) -> None:
    drive_, listener = driver(scheduler, slots(60), max_jobs=7)
    assert set(drive_.run()) == set(slots(60)) == set(listener.ends)
    assert scheduler.most <= 7 and len(scheduler.started) == 60
    assert max(scheduler.watched) > 1


def test_a_retried_run_continues(scheduler: FakeScheduler) -> None:
    scheduler.tried_again = ["r_1"]
    drive_, listener = driver(scheduler, slots(3))
    results = drive_.run()
    assert set(results) == set(slots(3)) == set(listener.ends) and len(listener.ends) == 3
    assert [note.partition(": ")[2] for note in listener.notes] == ["r_1 is tried again"]
    assert len(scheduler.started) == 3


def test_an_outage_while_submitting_neither_loses_nor_duplicates_runs(scheduler: FakeScheduler) -> None:
    scheduler.silent = {5, 6, 7, 20}
    drive_, listener = driver(scheduler, slots(30))
    results = drive_.run()
    assert set(results) == set(slots(30)) and len(listener.ends) == 30
    assert all(result.status == "completed" for result in results.values())
    assert len(scheduler.started) == 30 + 2  # those without a job were submitted again
    assert 1 <= listener.notes.count("no controller; waiting for it") <= len(scheduler.silent)


def test_only_a_patient_driver_waits_for_a_scheduler_that_never_answered(
    scheduler: FakeScheduler,
) -> None:
    scheduler.silent = set(range(8))
    with pytest.raises(InfraError, match="no controller"):
        driver(scheduler, slots(9))[0].run()
    patient, _ = driver(scheduler, slots(9), patient=True)
    assert len(patient.run()) == 9


def test_the_driver_waits_during_an_outage_while_polling(scheduler: FakeScheduler) -> None:
    scheduler.quiet = 5
    drive_, listener = driver(scheduler, slots(9))
    assert len(drive_.run()) == 9 and "no controller; waiting for it" in listener.notes


def test_rejections_in_a_row_stop_the_sweep(scheduler: FakeScheduler) -> None:
    scheduler.refused = set(range(100))
    drive_, _ = driver(scheduler, slots(60))
    with pytest.raises(InfraError, match="3 submissions in a row were rejected: sbatch: invalid"):
        drive_.run()
    assert len(scheduler.started) < 20


def test_a_single_rejection_is_a_failed_run(scheduler: FakeScheduler) -> None:
    scheduler.refused = {4}
    drive_, _ = driver(scheduler, slots(12))
    results = drive_.run()
    assert sorted(result.status for result in results.values()) == ["completed"] * 11 + ["failed"]


def test_the_job_limit_of_the_account_is_respected(scheduler: FakeScheduler) -> None:
    scheduler.refused, scheduler.why = {6}, "sbatch: error: QOSMaxSubmitJobPerUserLimit"
    drive_, listener = driver(scheduler, slots(20), max_jobs=100)
    results = drive_.run()
    assert len(results) == 20 and all(result.status == "completed" for result in results.values())
    assert "reached the job limit of the cluster" in listener.notes[0] and drive_.max_jobs < 100


def test_ctrl_c_keeps_submitted_runs_in_the_state(scheduler: FakeScheduler) -> None:
    drive_, listener = driver(scheduler, slots(40), max_jobs=12)
    listener.stop_at = 5
    with pytest.raises(KeyboardInterrupt):
        drive_.run()
    known = {*drive_.done, *drive_.running, *drive_.pending}
    assert known == set(slots(40)) and len(drive_.done) == 5
    assert len(drive_.running) + len(drive_.done) == len(scheduler.started)


def test_runs_that_are_already_running_are_polled_and_not_started_again(scheduler: FakeScheduler) -> None:
    first, second, third = slots(3)
    running = scheduler.start(first)
    drive_, _ = driver(scheduler, (third,), done={second: made_result("old")}, running={first: running})
    results = drive_.run()
    assert set(results) == {first, second, third} and results[second].run_id == "old"
    assert scheduler.started == [first, third]


def test_an_old_log_of_a_run_is_no_stall_before_this_process_saw_it_silent(scheduler: FakeScheduler) -> None:
    """The clock may have been set since its last line was written."""
    scheduler.spec = scheduler.spec.replace(stall_timeout_s=60.0)
    (slot,) = slots(1)
    run = scheduler.start(slot)
    run.log.write_text("step 1\n")
    os.utime(run.log, (1.0, 1.0))
    drive_, _ = driver(scheduler, (), running={slot: run})
    assert drive_.run()[slot].status == "completed"


@pytest.mark.parametrize(("query", "again"), [(1, True), (2, False)], ids=["before", "during"])
def test_a_run_that_was_cancelled_before_the_resume_is_run_again(
    scheduler: FakeScheduler, query: int, again: bool
) -> None:
    (slot,) = slots(1)
    running = scheduler.start(slot)
    scheduler.cancelled = {"0": query}
    drive_, listener = driver(scheduler, (), running={slot: running})
    results = drive_.run()
    assert scheduler.started == [slot] * (2 if again else 1)
    assert results[slot].status == ("completed" if again else "cancelled") and listener.ends == [slot]
