"""Start of a run: its folder is complete before its job can run, and a run that did not start has a result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.config.install import Install
from llmbx.errors import InfraError, PluginError, Terminated, Unreachable, UsageError
from llmbx.model import ProfileSpec, Result, RunSpec
from llmbx.record.folder import Record, Run, read_result, read_run, write_record
from llmbx.record.host import myself
from llmbx.run import pipeline
from llmbx.run.pipeline import Runner, exit_code

from .conftest import StoreRun, made_job
from .stand_ins import Bare, Cluster, StepLines, Trainer, refused

PROFILE = ProfileSpec(start=5, stop=7, tool="watch")


def only_run(install: Install) -> Path:
    """The folder of the only run in the install."""
    (record,) = install.path.rglob("run.json")
    return record.parent


def unstarted(install: Install) -> Result:
    """The result of the only run in the install, which has not started."""
    result = read_result(only_run(install))
    assert result is not None and not result.data_valid and result.steps_seen == 0
    return result


def test_script_files_and_record_are_written_before_the_job_is_submitted(
    spec: RunSpec, runner: Runner, cluster: Cluster
) -> None:
    """The job may start before `submit` returns, and llmbx may die before it knows the job's id."""
    seen: list[tuple[set[str], Record]] = []
    cluster.before_submission = lambda run_dir: seen.append(
        ({path.name for path in run_dir.iterdir()}, read_run(run_dir).record)
    )
    run = runner.start(spec, print, command=("run", "line"))
    ((names, record),) = seen
    assert names == {"run.json", "run.sh", "train.py"}
    assert (record.job, record.owner, record.command) == (None, myself(), ("run", "line"))
    assert record.image is not None and record.image.reference == "trainer:1"
    assert record.versions == {"trainer": "1.0"} and record.commands == {"train": ("python3", "train.py")}
    assert read_run(run.path).record == run.record == record.replace(job=run.record.job)
    assert run.record.job is not None and run.record.job.job_id == "1"


def test_only_a_detached_job_continues_without_its_process(spec: RunSpec, runner: Runner, cluster: Cluster) -> None:
    runner.start(spec, print)
    assert cluster.released == []
    runner.start(spec, print, detach=True)
    assert cluster.released == ["2"]


@pytest.mark.parametrize(
    ("profile", "forgotten"),
    [(None, False), (PROFILE, True), (PROFILE.replace(keep_secrets=True), False)],
)
def test_a_profiled_job_starts_after_this_process_has_forgotten_its_secrets(
    profile: ProfileSpec | None, forgotten: bool, spec: RunSpec, runner: Runner, cluster: Cluster, bare: Bare,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A profile records the environment of the processes that it sees."""
    order: list[str] = []
    monkeypatch.setattr(pipeline, "forget", lambda environ: order.append(f"forgets with {bare.prepared}"))
    cluster.before_submission = lambda run_dir: order.append("submits")
    runner.start(spec.replace(profile=profile), print)
    assert order == [*(["forgets with ['trainer:1']"] if forgotten else []), "submits"]


@pytest.mark.parametrize(
    ("fault", "status", "code", "cause"),
    [
        (InfraError("the registry does not answer\nand more"), "failed", 4, "the registry does not answer"),
        (UsageError("the image does not exist"), "failed", 1, "the image does not exist"),
        (KeyboardInterrupt(), "cancelled", 130, "interrupted before the start"),
        (Terminated("SIGTERM"), "cancelled", 130, "interrupted by SIGTERM before the start"),
    ],
)
def test_a_preparation_that_fails_or_is_interrupted_leaves_a_result_with_the_cause(
    fault: BaseException, status: str, code: int, cause: str, spec: RunSpec, runner: Runner, install: Install,
    cluster: Cluster, bare: Bare,
) -> None:  # fmt: skip
    bare.fault = fault
    with pytest.raises(type(fault)):
        runner.start(spec, print)
    result = unstarted(install)
    assert (result.status, exit_code(result), result.cause) == (status, code, cause)
    assert cluster.scripts == [] and cluster.lookups == []


def test_a_parser_that_cannot_be_made_ends_the_start_before_the_image_is_fetched(
    spec: RunSpec, runner: Runner, install: Install, trainer: Trainer, bare: Bare
) -> None:
    """An image may take an hour, and a run that cannot be read is worth nothing."""

    def fail() -> StepLines:
        raise LookupError("a grammar is missing")

    trainer.make_parser = fail
    with pytest.raises(PluginError, match="a grammar is missing"):
        runner.start(spec, print)
    assert bare.prepared == []
    assert "a grammar is missing" in (unstarted(install).cause or "")


def test_a_job_that_cannot_be_recorded_is_cancelled(
    spec: RunSpec, runner: Runner, install: Install, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would follow it, and it would hold its nodes."""

    def full(folder: Path, record: Record, durable: bool = True) -> None:
        if record.job is not None:
            raise InfraError("the disk is full")
        write_record(folder, record, durable)

    cluster.log = ""
    monkeypatch.setattr(pipeline, "write_record", full)
    with pytest.raises(InfraError, match="the disk is full"):
        runner.start(spec, print)
    assert cluster.cancelled == ["1"]
    result = unstarted(install)
    assert (result.cause, exit_code(result)) == ("the disk is full", 4)


def test_a_submission_that_the_scheduler_refused_is_not_looked_for(
    spec: RunSpec, runner: Runner, install: Install, cluster: Cluster
) -> None:
    cluster.before_submission = refused
    with pytest.raises(InfraError, match="refused"):
        runner.start(spec, print)
    assert cluster.lookups == []
    assert unstarted(install).cause == "the scheduler refused the job"


def accepted(cluster: Cluster, error: BaseException) -> Callable[[Path], None]:
    """A scheduler that takes job 7, although its client fails with `error` (see `Cluster.before_submission`)."""

    def fail(run_dir: Path) -> None:
        cluster.queue[run_dir] = made_job("7")
        raise error

    return fail


@pytest.mark.parametrize("error", [Unreachable("the scheduler does not answer"), Terminated("SIGTERM")])
def test_a_job_that_the_scheduler_has_taken_all_the_same_is_cancelled(
    error: BaseException, spec: RunSpec, runner: Runner, install: Install, cluster: Cluster
) -> None:
    cluster.before_submission = accepted(cluster, error)
    with pytest.raises(type(error)):
        runner.start(spec, print)
    assert cluster.cancelled == ["7"]
    result = unstarted(install)
    assert result.job_id == "7" and str(error) in (result.cause or "")


def test_a_job_that_may_still_run_is_mentioned_in_the_cause(
    store_run: StoreRun, runner: Runner, cluster: Cluster
) -> None:
    def unreachable() -> None:
        raise Unreachable("the scheduler does not answer")

    cluster.after_lookup = unreachable
    run = store_run(job=None, owner=myself())
    (run.path / "run.sh").write_text("")
    result = runner.conclude_unstarted(run, Unreachable("the submission did not return"))
    assert result.cause == "the submission did not return; a job may still be running: the scheduler does not answer"
    assert read_result(run.path) == result and exit_code(result) == 4


def test_a_run_that_ended_before_its_process_was_interrupted_keeps_its_result(
    store_run: StoreRun, runner: Runner
) -> None:
    run: Run = store_run(job=None, owner=myself())
    first = runner.conclude_unstarted(run, InfraError("the registry does not answer"))
    assert runner.conclude_unstarted(run, KeyboardInterrupt()) == first == read_result(run.path)
