"""The status of a run without a recorded job: it is being prepared, has a job after all, or never gets any."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.errors import Unreachable
from llmbx.model import JobStatus, Owner
from llmbx.model.run_folder import GIVEN_UP
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import read_result, read_run
from llmbx.record.host import myself
from llmbx.run.finalize import finalize, job_status
from llmbx.run.pipeline import exit_code
from llmbx.run_files import user_name

from .conftest import ELSEWHERE, GONE, StoreRun, files_of, made_job
from .stand_ins import COMPLETED, RUNNING, Cluster


def test_the_launcher_that_started_the_job_is_asked(store_run: StoreRun, plugins: Plugins, cluster: Cluster) -> None:
    """Also while the process that started it lives."""
    cluster.outcomes = [RUNNING, COMPLETED]
    assert job_status(store_run(job="1", owner=myself()), plugins) == RUNNING
    assert job_status(store_run(job="2", owner=GONE), plugins) == COMPLETED
    assert cluster.lookups == []


def test_a_run_whose_process_lives_is_being_prepared(
    store_run: StoreRun, plugins: Plugins, cluster: Cluster, living: Owner
) -> None:
    """Its job must not be abandoned: it may be submitted at any moment."""
    run = store_run(job=None, owner=living)
    before = files_of(run)
    assert job_status(run, plugins) == JobStatus(state="pending", reason="being prepared")
    assert finalize(run, plugins) is None
    assert cluster.lookups == [] and files_of(run) == before


def test_a_run_of_another_host_is_being_prepared_there(store_run: StoreRun, plugins: Plugins, cluster: Cluster) -> None:
    run = store_run(job=None, owner=ELSEWHERE)
    before = files_of(run)
    assert job_status(run, plugins) == JobStatus(state="pending", reason="being prepared on another")
    assert cluster.lookups == [] and files_of(run) == before


@pytest.mark.parametrize("owner", [GONE, None])
def test_a_run_whose_process_died_before_it_started_a_job_is_lost(
    owner: Owner | None, store_run: StoreRun, plugins: Plugins
) -> None:
    run = store_run(job=None, owner=owner)
    result = finalize(run, plugins)
    assert result is not None and (result.status, exit_code(result)) == ("lost", 4)
    assert result.cause == "llmbx ended before the run was started"
    assert read_result(run.path) == result
    assert (run.path / GIVEN_UP).exists(), "a script that starts late must see that it may not"


def test_a_job_that_was_started_but_not_recorded_is_found(
    store_run: StoreRun, plugins: Plugins, cluster: Cluster
) -> None:
    run = store_run(job=None)
    cluster.queue[run.path] = made_job("2")
    cluster.outcomes = [COMPLETED, RUNNING]
    assert finalize(run, plugins) is None
    assert read_run(run.path).record.job == cluster.queue[run.path]
    assert not (run.path / GIVEN_UP).exists()


def test_the_result_names_a_job_that_was_found_when_it_had_ended(
    store_run: StoreRun, plugins: Plugins, cluster: Cluster
) -> None:
    run = store_run(job=None)
    cluster.queue[run.path] = made_job("2")
    result = finalize(run, plugins)
    assert result is not None and (result.job_id, result.timing.queue_s) == ("2", 100.0)


def test_only_a_command_of_its_user_looks_for_the_job_of_a_run(
    store_run: StoreRun, plugins: Plugins, cluster: Cluster, as_stranger: Callable[[], None]
) -> None:
    run = store_run(job=None)
    before, user = files_of(run), user_name(run.path.stat().st_uid)
    as_stranger()
    reason = f"has no recorded job; a command of {user} looks for it"
    assert job_status(run, plugins) == JobStatus(state="pending", reason=reason)
    assert finalize(run, plugins) is None
    assert cluster.lookups == [] and files_of(run) == before


def test_a_scheduler_that_does_not_answer_leaves_the_run_open(
    store_run: StoreRun, plugins: Plugins, cluster: Cluster
) -> None:
    def unreachable() -> None:
        raise Unreachable("the scheduler does not answer")

    cluster.after_lookup = unreachable
    run = store_run(job=None)
    before = files_of(run)
    with pytest.raises(Unreachable):
        finalize(run, plugins)
    assert files_of(run) == before
