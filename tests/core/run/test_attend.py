"""A followed run: a requeue, an interruption, a parser that fails, and another process that was faster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.errors import PluginError
from llmbx.logs.parser import Record
from llmbx.model import Job, JobStatus, RunSpec, Step
from llmbx.record.folder import Run, read_result
from llmbx.record.host import myself
from llmbx.run import follow
from llmbx.run.finalize import conclude
from llmbx.run.pipeline import Runner, exit_code

from .conftest import StoreRun
from .stand_ins import COMPLETED, NODE_FAILED, RUNNING, SHORT_LOG, WHOLE_LOG, Cluster, Screen, StepLines, Trainer

TOKEN = "correct-horse-battery-staple"
LONG_TEXT = "text\n" * 5000

Play = Callable[[list[Callable[[], JobStatus]]], None]


@pytest.fixture
def play(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Play:
    """`play(scenes)`: the N-th call of `status` calls the N-th scene, and returns its status; nothing waits."""
    monkeypatch.setattr(follow, "POLL_S", 0.0)

    def begin(scenes: list[Callable[[], JobStatus]]) -> None:
        monkeypatch.setattr(cluster, "status", lambda job, run_dir: scenes.pop(0)())

    return begin


def test_a_log_that_a_requeue_replaced_is_read_from_its_beginning(
    store_run: StoreRun, runner: Runner, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler starts the script again, which moves the old log away. The new one is longer at the next
    look, and what it begins with must not be skipped: neither by the parser, nor where secrets are masked.
    """
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    run, screen = store_run(log=f"{SHORT_LOG}{LONG_TEXT}step 2 9.0\n", owner=myself()), Screen()

    def requeue() -> JobStatus:
        (run.path / "attempts/0").mkdir(parents=True)
        run.log.rename(run.path / "attempts/0" / run.log.name)
        run.log.write_text(f"fatal note {TOKEN}\n{WHOLE_LOG}{2 * LONG_TEXT}")
        return RUNNING

    play([lambda: RUNNING, requeue, lambda: COMPLETED])
    result = runner.attend(run, screen)
    assert screen.steps == [0, 1, 2, *range(20)]
    assert screen.events == ["the job was restarted", f"fatal note {'*' * len(TOKEN)}"]
    assert (result.status, result.steps_seen, result.attempt, result.step_time_s.max) == ("completed", 20, 1, 2.0)
    assert "attempt 0 was requeued by the scheduler; its files are in attempts/0" in result.warnings


class Interrupted(Screen):
    """A sink's stand-in whose user presses Ctrl-C at the first step."""

    def step(self, step: Step) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def running(spec: RunSpec, runner: Runner, cluster: Cluster) -> Run:
    """A run of this process that has made two steps."""
    cluster.outcomes, cluster.log = [RUNNING], SHORT_LOG
    return runner.start(spec, print)


def test_an_interruption_cancels_an_attended_run(running: Run, runner: Runner, cluster: Cluster) -> None:
    cluster.attended = True
    result = runner.attend(running, Interrupted())
    assert cluster.cancelled == ["1"]
    assert (result.status, exit_code(result), result.cause) == ("cancelled", 130, "interrupted by Ctrl-C")
    assert read_result(running.path) == result


def test_an_interruption_leaves_a_batch_job_running(running: Run, runner: Runner, cluster: Cluster) -> None:
    with pytest.raises(KeyboardInterrupt):
        runner.attend(running, Interrupted())
    assert cluster.cancelled == [] and read_result(running.path) is None


class Faulty(StepLines):
    """A parser's stand-in with a fault."""

    def feed(self, line: str) -> list[Record]:
        raise LookupError("an unexpected line")


@pytest.mark.parametrize("attended", [True, False])
def test_only_an_attended_run_ends_because_its_log_parser_fails(
    attended: bool, running: Run, runner: Runner, cluster: Cluster, trainer: Trainer
) -> None:
    """Without a follower nothing would end it; a batch job has the scheduler's time limit."""
    cluster.attended = attended
    trainer.make_parser = lambda: Faulty([])
    with pytest.raises(PluginError, match="an unexpected line"):
        runner.attend(running, Screen())
    assert cluster.cancelled == ["1"] * attended
    result = read_result(running.path)
    if attended:
        assert result is not None and result.cause is not None
        assert result.cause.startswith("llmbx could not follow the run: plugin 'toy'")
    else:
        assert result is None


def test_a_run_that_cannot_be_stopped_gets_no_result_while_it_runs(
    running: Run, runner: Runner, cluster: Cluster, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(job: Job, run_dir: object) -> None:
        raise OSError("not permitted")

    cluster.attended = True
    trainer.make_parser = lambda: Faulty([])
    monkeypatch.setattr(cluster, "cancel", fail)
    with pytest.raises(PluginError, match="an unexpected line"):
        runner.attend(running, Screen())
    assert read_result(running.path) is None


def test_a_result_that_another_process_wrote_ends_the_run(spec: RunSpec, runner: Runner, cluster: Cluster) -> None:
    """`llmbx cancel` in another shell: nothing is retried after it."""
    cluster.outcomes, cluster.log = [NODE_FAILED], SHORT_LOG
    run = runner.start(spec.replace(retries=2), print)
    cancelled = JobStatus(state="ended", verdict="cancelled", reason="cancelled by llmbx cancel")
    first = conclude(run, runner.plugins, cancelled)
    assert runner.attend(run, Screen()) == first == read_result(run.path)
    assert len(cluster.scripts) == 1 and run.files.folders("attempts") == []
