"""A run whose llmbx died while it started gets the job that it has, or never gets any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from llmbx.errors import Unreachable
from llmbx.model import Job, RunSpec
from llmbx.model.run_folder import GIVEN_UP
from llmbx.record.folder import Attempt, read_run
from llmbx.run.finalize import recover

from .conftest import StoreRun, files_of, made_job
from .stand_ins import Cluster


def test_every_run_gets_the_job_of_its_own_folder(store_run: StoreRun, cluster: Cluster) -> None:
    """All are looked up at once: a scheduler may be asked about hundreds of runs."""
    first, recorded, second = store_run(job=None), store_run(job="7"), store_run(job=None)
    cluster.queue = {second.path: made_job("2"), first.path: made_job("1")}
    runs = recover([first, recorded, second], cluster)
    assert [run.record.job for run in runs] == [made_job("1"), made_job("7"), made_job("2")]
    assert [read_run(run.path) for run in (first, recorded, second)] == runs
    assert cluster.lookups == [{first.path, second.path}]
    assert not any((run.path / GIVEN_UP).exists() for run in runs)


class Talkative(Cluster):
    """A launcher's stand-in that answers with all jobs of its queue."""

    def find(self, runs: Mapping[Path, RunSpec]) -> dict[Path, Job]:
        return {**self.queue}


def test_the_job_of_another_run_is_never_taken(store_run: StoreRun) -> None:
    run, other = store_run(job=None), store_run(job="7")
    launcher = Talkative()
    launcher.queue = {other.path: made_job("7")}
    (recovered,) = recover([run], launcher)
    assert recovered.record.job is None and (run.path / GIVEN_UP).exists()
    assert launcher.cancelled == [] and read_run(other.path) == other


def test_the_job_of_an_earlier_attempt_is_neither_taken_nor_cancelled(store_run: StoreRun, cluster: Cluster) -> None:
    """It has the same folder, and a scheduler may list it for hours after its end."""
    earlier = Attempt(number=0, status="node_fail", job=made_job("1"))
    run = store_run(job=None, attempt=1, attempts=(earlier,))
    cluster.queue = {run.path: made_job("1")}
    (recovered,) = recover([run], cluster)
    assert recovered.record.job is None and (run.path / GIVEN_UP).exists()
    assert cluster.cancelled == []


def test_a_job_that_appears_after_the_first_lookup_is_cancelled(store_run: StoreRun, cluster: Cluster) -> None:
    run, marks = store_run(job=None), []

    def appear() -> None:
        marks.append((run.path / GIVEN_UP).exists())
        cluster.queue[run.path] = made_job("2")

    cluster.after_lookup = appear
    (recovered,) = recover([run], cluster)
    assert recovered.record.job is None and read_run(run.path).record.job is None
    assert marks == [False, True], "a script that starts after the second lookup finds the marker"
    assert cluster.cancelled == ["2"]


def test_an_abandoned_run_stays_abandoned(store_run: StoreRun, cluster: Cluster) -> None:
    run = store_run(job=None)
    recover([run], cluster)
    cluster.queue, cluster.lookups = {run.path: made_job("2")}, []
    (again,) = recover([run], cluster)
    assert again.record.job is None
    assert cluster.lookups == [] and cluster.cancelled == []


def test_no_run_is_abandoned_because_the_scheduler_does_not_answer(store_run: StoreRun, cluster: Cluster) -> None:
    def unreachable() -> None:
        raise Unreachable("the scheduler does not answer")

    cluster.after_lookup = unreachable
    run = store_run(job=None)
    before = files_of(run)
    with pytest.raises(Unreachable):
        recover([run], cluster)
    assert files_of(run) == before


def test_a_job_that_its_process_recorded_meanwhile_is_kept(store_run: StoreRun, cluster: Cluster) -> None:
    """The record is read again: the caller's may be older than the job."""
    run = store_run(job="3")
    stale = run.replace(record=run.record.replace(job=None))
    assert recover([stale], cluster) == [run]
    assert cluster.lookups == [] and not (run.path / GIVEN_UP).exists()
