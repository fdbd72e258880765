"""A scheduler whose commands fail: the run is followed for as long as the launcher allows, and the job continues."""

from __future__ import annotations

import pytest

from llmbx.errors import InfraError, Unreachable
from llmbx.model import Job, JobStatus, RunSpec
from llmbx.record.folder import Run, read_result
from llmbx.run import follow
from llmbx.run.pipeline import Runner

from .stand_ins import COMPLETED, RUNNING, SHORT_LOG, Cluster, Screen


class Unlucky:
    """The scheduler fails at these calls of `status`, counted from 1, with a message that no list has."""

    def __init__(self, failures: range, end: int) -> None:
        self.calls, self.failures, self.end = 0, failures, end

    def __call__(self, job: Job, run_dir: object) -> JobStatus:
        self.calls += 1
        if self.calls in self.failures:
            raise InfraError(f"squeue: trouble {self.calls}")
        return COMPLETED if self.calls >= self.end else RUNNING


@pytest.fixture
def run(spec: RunSpec, runner: Runner, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(follow, "POLL_S", 0.0)
    return runner.start(spec, print)


@pytest.mark.parametrize("failures", [range(1, 4), range(2, 30)], ids=["the first call", "later calls"])
def test_failures_are_survived_and_said_once(
    failures: range, run: Run, runner: Runner, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "status", Unlucky(failures, end=40))
    screen = Screen()
    assert runner.attend(run, screen).status == "completed"
    said = f"squeue: trouble {failures[0]}; the job continues, and llmbx tries again for up to 1 h 0 min"
    assert screen.events == [said] and cluster.cancelled == []


def test_after_the_limit_the_job_goes_on_without_a_result(
    run: Run, runner: Runner, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "status", Unlucky(range(1, 9999), end=9999))
    monkeypatch.setattr(cluster, "outage_limit", lambda spec: (0.05, "set by hand"))
    with pytest.raises(Unreachable, match=r"the scheduler has not answered for 0 s: squeue: trouble .*; set by hand"):
        runner.attend(run, Screen())
    assert read_result(run.path) is None and cluster.cancelled == []


def test_a_stalled_run_is_cancelled_as_soon_as_the_scheduler_answers(
    spec: RunSpec, runner: Runner, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "POLL_S", 0.0)
    monkeypatch.setattr(follow, "STACK_GRACE_S", 0.0)
    cluster.outcomes, cluster.log = [RUNNING], SHORT_LOG
    run = runner.start(spec.replace(stall_timeout_s=0.01), print)
    tried, cancel = [], cluster.cancel

    def unlucky(job: Job, run_dir: object) -> None:
        tried.append(job)
        if len(tried) < 3:
            raise InfraError("scancel: trouble")
        cancel(job, run.path)

    monkeypatch.setattr(cluster, "cancel", unlucky)
    result = runner.attend(run, Screen())
    assert len(tried) == 3 and result.cause is not None and result.cause.startswith("stalled: ")
