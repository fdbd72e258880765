"""A run that the infrastructure ended is retried as often as requested; each attempt keeps its files by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.errors import InfraError, UsageError
from llmbx.launchers.base import Launcher
from llmbx.model import JobStatus, RunSpec
from llmbx.record.attempts import FOLDER
from llmbx.record.folder import Record, Run, read_result, read_run, read_steps
from llmbx.record.host import myself
from llmbx.run.finalize import Ended, assess
from llmbx.run.pipeline import Runner, exit_code
from llmbx.run.retry import start_next_attempt

from .conftest import StoreRun, made_job
from .stand_ins import COMPLETED, CRASHED, NODE_FAILED, SHORT_LOG, STOPPED, WHOLE_LOG, Cluster, Screen, refused

CAUSE = "NODE_FAIL on n7"


def followed(spec: RunSpec, runner: Runner, screen: Screen | None = None) -> Run:
    """The run after its last attempt."""
    run = runner.start(spec, print)
    runner.attend(run, screen or Screen())
    return read_run(run.path)


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_run_is_retried_as_often_as_requested_and_not_once_more(
    retries: int, spec: RunSpec, runner: Runner, cluster: Cluster
) -> None:
    cluster.log, cluster.outcomes = SHORT_LOG, [NODE_FAILED]
    run = followed(spec.replace(retries=retries), runner)
    result = read_result(run.path)
    assert len(cluster.scripts) == 1 + retries
    assert result is not None and (result.status, result.attempt, exit_code(result)) == ("node_fail", retries, 4)
    assert run.files.folders(FOLDER) == [str(number) for number in range(retries)]


def test_the_result_is_that_of_the_last_attempt(spec: RunSpec, runner: Runner, cluster: Cluster) -> None:
    cluster.outcomes = [NODE_FAILED, COMPLETED]
    cluster.before_submission = lambda run_dir: setattr(
        cluster, "log", WHOLE_LOG if (run_dir / FOLDER).exists() else SHORT_LOG
    )
    screen = Screen()
    run = followed(spec.replace(retries=2), runner, screen)
    result = read_result(run.path)
    assert result is not None and (result.status, result.attempt, result.job_id) == ("completed", 1, "2")
    assert f"attempt 0 ended with node_fail: {CAUSE}; its files are in attempts/0" in result.warnings
    assert screen.events == [f"attempt 0 failed: {CAUSE}; attempt 1 of 2 without n7"]
    assert screen.steps == [0, 1, *range(20)]


@pytest.mark.parametrize(
    ("status", "log"),
    [
        (CRASHED, SHORT_LOG),
        (CRASHED, f"{SHORT_LOG}fatal exception ValueError\n"),
        (NODE_FAILED, WHOLE_LOG),
        (STOPPED, SHORT_LOG),
        (CRASHED.replace(verdict="timeout"), SHORT_LOG),
        (JobStatus(state="lost"), SHORT_LOG),
        (CRASHED.replace(verdict="stalled"), "fatal network_error connection refused\n"),
    ],
)
def test_what_a_retry_cannot_cure_or_need_not_is_not_retried(
    status: JobStatus, log: str, spec: RunSpec, runner: Runner, cluster: Cluster
) -> None:
    """The program's own fault, complete data, a cancelled, overdue or stalled run, and one whose end is unknown."""
    cluster.outcomes, cluster.log = [status], log
    run = followed(spec.replace(retries=3), runner)
    assert len(cluster.scripts) == 1 and run.record.attempts == ()
    assert read_result(run.path) is not None


@pytest.fixture
def failed(store_run: StoreRun, spec: RunSpec, runner: Runner) -> Ended:
    """The end of a run that may be retried, with some of the files that a run leaves."""
    image = runner.runtime.plan(runner.framework.prepare_image(spec), Path())
    run = store_run(log=SHORT_LOG, job="9", spec=spec.replace(retries=2), image=image)
    for name in ("exit.json", "tags.json", "rank-0.log", "nsys_profile/rank0.nsys-rep"):
        (run.path / name).parent.mkdir(exist_ok=True)
        (run.path / name).write_text(f"{name} of the first attempt")
    return assess(run, runner.plugins, NODE_FAILED)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_all_that_an_attempt_left_moves_to_a_folder_of_its_own(failed: Ended, runner: Runner) -> None:
    """What stayed would be read as the next attempt's: its log, its exit code, its profile."""
    run = start_next_attempt(failed, runner, CAUSE)
    aside, log = run.path / FOLDER / "0", run.log.name
    assert names(run.path) == {"run.json", "tags.json", FOLDER, "run.sh", "train.py", log}
    assert names(aside) == {"exit.json", "rank-0.log", "nsys_profile", log, "steps.jsonl", "result.json"}
    assert (aside / log).read_text() == SHORT_LOG and run.log.read_text() == WHOLE_LOG
    assert (aside / "nsys_profile/rank0.nsys-rep").exists()
    assert [step.number for step in read_steps(aside)] == [0, 1]
    result = read_result(aside)
    assert result is not None and (result.status, result.cause) == ("node_fail", CAUSE)


def test_the_record_names_the_earlier_attempt_and_the_new_job(failed: Ended, runner: Runner) -> None:
    run = start_next_attempt(failed, runner, CAUSE)
    record = read_run(run.path).record
    assert run.record == record
    (earlier,) = record.attempts
    assert (earlier.number, earlier.status, earlier.cause, earlier.node) == (0, "node_fail", CAUSE, "n7")
    assert (earlier.job, record.job) == (made_job("9"), made_job("1"))
    assert (record.attempt, record.owner) == (1, myself())


def test_the_end_of_the_old_job_is_never_taken_for_that_of_the_next(
    failed: Ended, runner: Runner, cluster: Cluster
) -> None:
    """While the job is submitted, `run.json` names no job, and a living process as the owner."""
    records: list[Record] = []
    cluster.before_submission = lambda run_dir: records.append(read_run(run_dir).record)
    start_next_attempt(failed, runner, CAUSE)
    (record,) = records
    assert (record.job, record.owner, record.attempt) == (None, myself(), 1)


def test_an_attempt_gets_the_next_number_after_those_that_the_scheduler_requeued(failed: Ended, runner: Runner) -> None:
    (failed.run.path / FOLDER / "0").mkdir(parents=True)
    run = start_next_attempt(failed, runner, CAUSE)
    assert (run.path / FOLDER / "1" / run.log.name).exists() and not names(run.path / FOLDER / "0")
    assert [earlier.number for earlier in run.record.attempts] == [1]


def test_the_next_attempt_leaves_out_the_node_that_failed(failed: Ended, runner: Runner, cluster: Cluster) -> None:
    run = start_next_attempt(failed, runner, CAUSE)
    assert cluster.scripts == ["#!/bin/sh\n# without n7\n"]
    assert run.record.spec.plugin_settings == {"cluster": {"exclude": "n7"}}


@pytest.mark.parametrize(("named", "without"), [("n2", "n2"), ("elsewhere", "n7"), (None, "n7")])
def test_the_node_of_the_failure_is_left_out_if_it_is_one_of_the_runs(
    named: str | None, without: str, failed: Ended, runner: Runner, cluster: Cluster
) -> None:
    """Else it is the launcher's, on which a rank ended first."""
    (failed.run.path / "node-1.txt").write_text("host n2\n")
    ended: Ended = failed.replace(result=failed.result.replace(cause_node=named))
    run = start_next_attempt(ended, runner, CAUSE)
    assert cluster.scripts == [f"#!/bin/sh\n# without {without}\n"]
    assert [attempt.node for attempt in run.record.attempts] == [without]


def too_small(spec: RunSpec) -> Launcher:
    raise UsageError("the allocation has 1 node, the run needs 2")


@pytest.mark.parametrize("member", ["without_node", "inside"])
def test_a_node_that_cannot_be_left_out_is_used_again(
    member: str, failed: Ended, runner: Runner, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user named the nodes, or the allocation would be too small without it."""
    answers = {"without_node": lambda spec, node: None, "inside": too_small}
    monkeypatch.setattr(cluster, member, answers[member], raising=False)
    run = start_next_attempt(failed, runner, CAUSE)
    assert cluster.scripts == ["#!/bin/sh\n# without none\n"] and run.record.spec == failed.run.record.spec


def test_a_next_attempt_that_cannot_be_started_ends_the_run(spec: RunSpec, runner: Runner, cluster: Cluster) -> None:
    cluster.log, cluster.outcomes = SHORT_LOG, [NODE_FAILED]
    run = runner.start(spec.replace(retries=2), print)
    cluster.before_submission = refused
    screen = Screen()
    with pytest.raises(InfraError, match="the scheduler refused the job"):
        runner.attend(run, screen)
    assert screen.events == [f"attempt 0 failed: {CAUSE}; the next attempt could not be started"]
    result = read_result(run.path)
    assert result is not None and (result.status, result.attempt, exit_code(result)) == ("failed", 1, 4)
    assert (result.cause, result.cause_node) == (CAUSE, "n7"), "why it was retried is worth more than why it was not"
    assert "attempt 1 could not be started: the scheduler refused the job" in result.warnings
    assert (result.job_id, result.steps_seen) == (None, 0), "those of the first attempt are in its own result"
    assert (run.path / FOLDER / "0" / run.log.name).read_text() == SHORT_LOG
