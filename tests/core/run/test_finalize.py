"""The result of a run is written once, by whoever may write it, and says what a user must know about the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from llmbx.errors import PluginError
from llmbx.logs.parser import Record
from llmbx.model import JobStatus, Owner, Result, RunSpec
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import RESULT, Attempt, read_result, read_run, read_steps
from llmbx.record.host import myself
from llmbx.run.finalize import assess, conclude, finalize, write
from llmbx.run.own_result import LEFT

from .conftest import ELSEWHERE, GONE, StoreRun, files_of, load_stand_ins
from .stand_ins import (
    COMPLETED,
    CRASHED,
    NODE_FAILED,
    PENDING,
    RUNNING,
    SHORT_LOG,
    WHOLE_LOG,
    Bare,
    Cluster,
    StepLines,
    Trainer,
    Watch,
)

TOKEN = "correct-horse-battery-staple"


def test_a_run_that_has_ended_gets_its_result_and_its_steps_once(store_run: StoreRun, plugins: Plugins) -> None:
    run = store_run()
    result = finalize(run, plugins)
    assert result is not None and result == read_result(run.path)
    assert (result.status, result.data_valid, result.steps_measured) == ("completed", True, 8)
    assert [step.number for step in read_steps(run.path)] == [*range(20)]
    run.log.unlink()
    before = files_of(run)
    assert finalize(run, plugins) == result
    assert files_of(run) == before, "the steps are not written again, although the log is gone"


@pytest.mark.parametrize("status", [PENDING, RUNNING])
def test_a_run_that_has_not_ended_gets_no_result(
    status: JobStatus, store_run: StoreRun, plugins: Plugins, cluster: Cluster
) -> None:
    cluster.outcomes = [status]
    run = store_run()
    before = files_of(run)
    assert finalize(run, plugins) is None
    assert files_of(run) == before


def test_the_first_of_two_results_stays(store_run: StoreRun, plugins: Plugins) -> None:
    """Two commands see the end of a run at once, one of them before the scheduler knows the exit code."""
    run = store_run()
    first, second = assess(run, plugins, COMPLETED), assess(run, plugins, CRASHED)
    assert second.result.status == "failed"
    assert write(first) == first.result
    content = (run.path / RESULT).read_bytes()
    assert write(second) == first.result
    assert (run.path / RESULT).read_bytes() == content


class ReadTogether(StepLines):
    """A parser's stand-in that ends its log only when as many parsers as `together` has parties have read theirs."""

    def __init__(self, together: threading.Barrier) -> None:
        super().__init__([])
        self.together = together

    def close(self) -> Iterable[Record]:
        self.together.wait(60)
        return []


def test_all_processes_that_finalize_a_run_at_once_return_the_same_result(store_run: StoreRun) -> None:
    """Threads stand for processes. Each gets another exit code, and none writes before all have read the log."""
    run, together = store_run(log=SHORT_LOG), threading.Barrier(4)

    def as_process(exit_code: int) -> Result | None:
        trainer, cluster = Trainer(), Cluster()
        trainer.make_parser = lambda: ReadTogether(together)
        cluster.outcomes = [CRASHED.replace(exit_code=exit_code)]
        return finalize(run, load_stand_ins(trainer, Watch(), cluster, Bare()))

    with ThreadPoolExecutor(4) as processes:
        results = [*processes.map(as_process, (1, 2, 3, 4))]
    written = read_result(run.path)
    assert written is not None and results == [written] * 4


@pytest.mark.parametrize("become", ["as_stranger", "as_reader"])
def test_a_run_of_another_user_or_in_a_read_only_install_is_judged_but_not_changed(
    become: str, store_run: StoreRun, spec: RunSpec, plugins: Plugins, profiler: Watch, monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    run = store_run(log=f"{WHOLE_LOG}{TOKEN}\n", spec=spec.replace(profilers=("watch",)))
    (run.path / RESULT).write_text('{"accuracy": 0.9}')
    before = files_of(run)
    request.getfixturevalue(become)()
    result = finalize(run, plugins)
    assert result is not None and (result.status, result.steps_measured) == ("completed", 8)
    assert files_of(run) == before
    assert profiler.analyzed == [], "profilers write into the folder"


def test_the_process_that_started_a_run_writes_its_result_whoever_owns_the_files(
    store_run: StoreRun, plugins: Plugins, as_stranger: Callable[[], None]
) -> None:
    """Some network file systems show another owner for all files."""
    run = store_run(owner=myself())
    as_stranger()
    assert finalize(run, plugins) == read_result(run.path) is not None


def test_secrets_are_masked_in_all_files_before_the_log_is_read(
    store_run: StoreRun, plugins: Plugins, trainer: Trainer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    cluster.outcomes = [CRASHED]
    run = store_run(log=f"{SHORT_LOG}cannot log in with {TOKEN}\n")
    (run.path / "rank-1.log").write_text(f"using {TOKEN}")
    result = finalize(run, plugins)
    stars = "*" * len(TOKEN)
    assert trainer.lines[-1] == f"cannot log in with {stars}"
    assert result is not None and result.cause is not None and result.cause.endswith(trainer.lines[-1])
    assert (run.path / "rank-1.log").read_text() == f"using {stars}"
    assert not [name for name, content in files_of(run).items() if TOKEN.encode() in content]


def test_warnings_begin_with_the_checks_and_end_with_what_was_not_searched(
    store_run: StoreRun, spec: RunSpec, plugins: Plugins, trainer: Trainer
) -> None:
    def fail() -> None:
        raise ArithmeticError("no layers")

    trainer.formula = fail
    changed = spec.replace(
        profilers=("watch",), inflated=("the profiler watch changes the memory",), secrets=("UNSET_TOKEN",)
    )
    run = store_run(log=WHOLE_LOG.replace("step 15 2.0\n", "text\n"), spec=changed)
    (run.path / "attempts/0").mkdir(parents=True)
    (run.path / RESULT).write_text('{"accuracy": 0.9}')
    result = finalize(run, plugins)
    assert result is not None and result.mfu.value is None
    expected = [
        "the profile is short; profile more steps (check watch:profile)",
        "only 7 of the 8 steps of the window 11-18 could be measured",
        "MFU and recomputed TFLOP/s are not available: plugin 'toy': compute_flops",
        "the profiler watch changes the memory",
        "attempt 0 was requeued by the scheduler",
        f"a {RESULT} that llmbx did not write, for example one of the job itself, was set aside as {LEFT}",
        "the log was not searched for the value of UNSET_TOKEN",
    ]
    beginnings = [text for line in result.warnings for text in expected if line.startswith(text)]
    assert beginnings == expected


def test_earlier_attempts_are_counted_and_described(store_run: StoreRun, spec: RunSpec, plugins: Plugins) -> None:
    """The first attempt was retried by llmbx, the second requeued by the scheduler, which llmbx did not see."""
    first = Attempt(number=0, job=None, status="node_fail", cause="NODE_FAIL on n7")
    run = store_run(spec=spec.replace(retries=1), attempt=1, attempts=(first,))
    for number in ("0", "1"):
        (run.path / "attempts" / number).mkdir(parents=True)
    result = finalize(run, plugins)
    assert result is not None and result.attempt == 2
    assert [line for line in result.warnings if line.startswith("attempt")] == [
        "attempt 0 ended with node_fail: NODE_FAIL on n7; its files are in attempts/0",
        "attempt 1 was requeued by the scheduler; its files are in attempts/1",
    ]


@pytest.mark.parametrize(
    ("owner", "retries", "status", "ended_ago_s", "left"),
    [
        ("living", 1, NODE_FAILED, 3600, True),
        ("living", 0, NODE_FAILED, 3600, False),
        ("living", 1, CRASHED, 3600, False),
        ("gone", 1, NODE_FAILED, 0, False),
        ("myself", 1, NODE_FAILED, 0, False),
        ("nobody", 1, NODE_FAILED, 0, False),
        ("elsewhere", 1, NODE_FAILED, 59, True),
        ("elsewhere", 1, NODE_FAILED, 61, False),
    ],
)
def test_only_a_run_that_its_living_owner_will_retry_is_left_to_it(
    owner: str, retries: int, status: JobStatus, ended_ago_s: float, left: bool, living: Owner, store_run: StoreRun,
    spec: RunSpec, plugins: Plugins, cluster: Cluster, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A result would end the run, although its owner is about to start the next attempt in the same folder."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    owners = {"living": living, "gone": GONE, "myself": myself(), "nobody": None, "elsewhere": ELSEWHERE}
    cluster.outcomes = [status.replace(ended=now - ended_ago_s)]
    run = store_run(log=SHORT_LOG, spec=spec.replace(retries=retries), owner=owners[owner])
    result = finalize(run, plugins)
    assert (result is None) is left
    assert read_result(run.path) == result
    assert read_run(run.path).record == run.record and run.log.exists()


def test_a_known_end_is_recorded_without_asking_the_launcher_and_only_once(
    store_run: StoreRun, plugins: Plugins, cluster: Cluster
) -> None:
    cluster.outcomes = [RUNNING]
    run = store_run(log=SHORT_LOG)
    stalled = JobStatus(state="ended", verdict="stalled", reason="stalled: nothing was logged for 60 s")
    result = conclude(run, plugins, stalled)
    assert (result.status, result.cause) == ("failed", "stalled: nothing was logged for 60 s")
    run.log.unlink()
    before = files_of(run)
    assert conclude(run, plugins, COMPLETED) == result
    assert files_of(run) == before


class Faulty(StepLines):
    """A parser's stand-in with a fault."""

    def feed(self, line: str) -> list[Record]:
        raise LookupError("an unexpected line")


def test_a_run_whose_log_parser_fails_is_concluded_from_its_status(
    store_run: StoreRun, plugins: Plugins, trainer: Trainer
) -> None:
    trainer.make_parser = lambda: Faulty([])
    run = store_run()
    with pytest.raises(PluginError, match="an unexpected line"):
        finalize(run, plugins)
    assert read_result(run.path) is None, "the log may be read again when the plugin works"
    broken_off = JobStatus(state="ended", verdict="broken_off", reason="llmbx could not follow the run")
    result = conclude(run, plugins, broken_off)
    assert (result.status, result.data_valid, result.cause) == ("failed", False, "llmbx could not follow the run")
    assert read_result(run.path) == result


@pytest.mark.parametrize(("log", "cause"), [(WHOLE_LOG, "the profile is short"), (SHORT_LOG, "the run ended with")])
def test_a_failed_check_of_the_files_is_the_cause_if_the_data_is_valid(
    store_run: StoreRun, spec: RunSpec, plugins: Plugins, cluster: Cluster, profiler: Watch, log: str, cause: str
) -> None:
    cluster.outcomes, profiler.warns = [CRASHED], False
    result = finalize(store_run(log=log, spec=spec.replace(profilers=("watch",))), plugins)
    assert result is not None and (result.status, result.data_valid) == ("failed", log == WHOLE_LOG)
    assert str(result.cause).startswith(cause)
