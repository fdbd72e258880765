"""Verdicts: a failed run never looks passed, and a good measurement survives a crashed teardown."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from llmbx.model import CheckpointSpec, Event, JobStatus, RunSpec, Step
from llmbx.run.collect import Log
from llmbx.run.verdict import judge, with_end

Make = Callable[..., RunSpec]
WHOLE = [Step(number=k, total=20, time_s=0.1, loss=1.0) for k in range(1, 21)]
OK = JobStatus(state="ended", exit_code=0)


def test_completed_requires_exit_code_last_step_and_finite_loss(make_spec: Make) -> None:
    verdict = judge(make_spec(), OK, WHOLE, [])
    assert (verdict.status, verdict.data_valid, verdict.cause) == ("completed", True, None)


def test_steps_counted_from_zero_without_a_total(make_spec: Make) -> None:
    log = [Step(number=k, time_s=0.1) for k in range(20)]
    assert judge(make_spec(), OK, log, []).status == "completed"
    assert judge(make_spec(), OK, log[:-1], []).status == "failed"


@pytest.mark.parametrize("first", [0, 1])
def test_the_last_requested_step_counts_and_not_the_one_announced_by_the_log(make_spec: Make, first: int) -> None:
    for total in (None, 5, 19, 20):
        log = [Step(number=first + k, time_s=0.1, total=total) for k in range(20)]
        assert judge(make_spec(), OK, log, [], first=first).status == "completed"
        short = judge(make_spec(), OK, log[:-1], [], first=first)
        assert (short.status, short.data_valid) == ("failed", False)
    announced = [Step(number=k, time_s=0.1, total=5) for k in range(1, 6)]
    assert judge(make_spec(), OK, announced, []).status == "failed", "5 of 5, where 20 were asked for"


def test_a_run_that_loads_a_checkpoint_ends_at_the_step_stated_in_its_log(make_spec: Make) -> None:
    loaded = make_spec(checkpoint=CheckpointSpec(load="/weights"))
    assert judge(loaded, OK, [Step(number=7, total=7, time_s=0.1)], [], first=1).status == "completed"
    assert judge(loaded, OK, [Step(number=7, total=8, time_s=0.1)], [], first=1).status == "failed"
    assert judge(loaded, OK, [], [], first=1).status == "failed"


def test_exit_zero_without_the_last_step_is_a_failure(make_spec: Make) -> None:
    verdict = judge(make_spec(), OK, WHOLE[:-1], [])
    assert (verdict.status, verdict.data_valid) == ("failed", False)
    assert "after step 19" in str(verdict.cause)


def test_exit_zero_without_any_step_is_a_failure(make_spec: Make) -> None:
    verdict = judge(make_spec(), OK, [], [])
    assert verdict.status == "failed" and "no training step" in str(verdict.cause)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_fails_whatever_the_exit_code(make_spec: Make, bad: float) -> None:
    verdict = judge(make_spec(), OK, [*WHOLE[:9], WHOLE[9].replace(loss=bad), *WHOLE[10:]], [])
    assert (verdict.status, verdict.data_valid) == ("failed", False)
    assert "the loss is not finite at step 10" in str(verdict.cause)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_non_finite_gradient_at_the_last_step_fails(make_spec: Make, bad: float) -> None:
    last = judge(make_spec(), OK, [*WHOLE[:-1], WHOLE[-1].replace(grad_norm=bad)], [])
    assert (last.status, last.data_valid) == ("failed", False)
    assert "the gradient norm is not finite at step 20, the last" in str(last.cause)
    survived = judge(make_spec(), OK, [*WHOLE[:9], WHOLE[9].replace(grad_norm=bad), *WHOLE[10:]], [])
    assert (survived.status, survived.data_valid) == ("completed", True)


def test_a_run_whose_every_step_was_skipped_trained_nothing(make_spec: Make) -> None:
    skipped = [step.replace(skipped=True, loss=None) for step in WHOLE]
    verdict = judge(make_spec(), OK, skipped, [])
    assert (verdict.status, verdict.data_valid) == ("failed", False) and "skipped all of the 20 steps" in str(
        verdict.cause
    )
    assert judge(make_spec(), OK, [*skipped[:-1], WHOLE[-1]], []).status == "completed"


def test_a_crashed_teardown_keeps_valid_data(make_spec: Make) -> None:
    verdict = judge(make_spec(), JobStatus(state="ended", exit_code=139, rank=3), WHOLE, [])
    assert (verdict.status, verdict.data_valid) == ("failed", True)
    assert (
        "after the last step" in str(verdict.cause)
        and "SIGSEGV" in str(verdict.cause)
        and "rank 3" in str(verdict.cause)
    )


def test_out_of_memory_has_its_own_status_and_names_the_rank(make_spec: Make) -> None:
    event = Event(kind="out_of_memory", text="CUDA out of memory. Tried to allocate 2 GiB", rank=5, fatal=True)
    noise = Event(kind="exception", text="RuntimeError: connection closed by peer", rank=0, fatal=True)
    verdict = judge(make_spec(), JobStatus(state="ended", exit_code=1, rank=0), WHOLE[:3], [noise, event])
    assert verdict.status == "out_of_memory"
    assert verdict.cause == "rank 5: CUDA out of memory. Tried to allocate 2 GiB"


def test_a_rank_that_the_kernel_killed_for_memory_is_not_just_killed(make_spec: Make) -> None:
    event = Event(kind="killed", text="run.sh: line 234: 32344 Killed", rank=0, fatal=True)
    why = "the kernel killed 1 process(es) for memory"
    job = JobStatus(state="ended", exit_code=137, verdict="out_of_memory", reason=why, rank=0)
    verdict = judge(make_spec(), job, WHOLE[:3], [event])
    assert (verdict.status, verdict.cause) == ("out_of_memory", f"rank 0: {why}")
    assert judge(make_spec(), job.replace(verdict=None), WHOLE[:3], [event]).cause == f"rank 0: {event.text}"


@pytest.mark.parametrize("known", ["timeout", "node_fail", "preempted", "cancelled", "out_of_memory"])
def test_the_status_of_the_launcher_is_used(make_spec: Make, known: str) -> None:
    status = JobStatus(state="ended", exit_code=1, verdict=known, reason="because")
    verdict = judge(make_spec(), status, WHOLE[:5], [])
    assert (verdict.status, verdict.cause) == (known, "because")


def test_a_stall_is_a_failure_with_that_cause(make_spec: Make) -> None:
    status = JobStatus(state="ended", exit_code=143, verdict="stalled", reason="stalled: nothing was logged for 5 s")
    event = Event(kind="exception", text="KeyboardInterrupt", fatal=True)
    verdict = judge(make_spec(), status, WHOLE[:5], [event])
    assert verdict.status == "failed" and str(verdict.cause).startswith("stalled")


def test_a_lost_job_is_lost(make_spec: Make) -> None:
    assert judge(make_spec(), JobStatus(state="lost"), WHOLE[:5], []).status == "lost"


def test_the_last_log_line_is_the_cause_if_nothing_else_is_known(make_spec: Make) -> None:
    status = JobStatus(state="ended", exit_code=2, rank=0)
    verdict = judge(make_spec(), status, [], [], "llmbx: this image has no driver")
    assert str(verdict.cause).endswith("its log ends with: llmbx: this image has no driver")


def test_the_message_of_the_container_tool_precedes_the_last_log_line(make_spec: Make) -> None:
    status, spec = JobStatus(state="ended", exit_code=1), make_spec(runtime="pyxis")
    verdict = judge(spec, status, [], [], "child 5 failed", "failed to create container filesystem")
    assert str(verdict.cause).endswith("exit code 1; pyxis: failed to create container filesystem")
    after = judge(spec, status, WHOLE[:3], [], "the end", "failed to create container filesystem")
    assert str(after.cause).endswith("its log ends with: the end"), "a rank that trained had its container"


@pytest.mark.parametrize(("node", "rank"), [("n2", 3), ("n1", 2)])
def test_the_launcher_knows_of_which_rank_a_daemon_tells(make_spec: Make, node: str, rank: int) -> None:
    """Its lines have the label of the first rank of its node."""
    text = "slurmstepd-n2: error: Detected 1 oom-kill event(s) in StepId=4.0."
    event = Event(kind="out_of_memory", text=text, rank=2, node="n2", fatal=True)
    job = JobStatus(state="ended", exit_code=137, verdict="out_of_memory", rank=3, node=node)
    verdict = judge(make_spec(), job, WHOLE[:3], [event])
    assert verdict.failure is not None and (verdict.failure.rank, verdict.failure.ranks) == (rank, (rank,))
    assert verdict.cause == f"rank {rank}: {text}"


ECHO = Event(kind="peer_lost", text="Connection closed by peer", rank=0, fatal=True)
LAGGING = Event(kind="nccl_lagging", text="Rank 1 failed to pass monitoredBarrier", rank=1, facts={"by": 3})
OTHER = Event(kind="exception", text="LookupError: rank 3", rank=0, fatal=True)


@pytest.mark.parametrize(
    ("code", "events", "first"),
    [
        (3, [ECHO], True), (143, [ECHO], True), (139, [ECHO], True), (137, [OTHER], True), (3, [OTHER], False),
        (134, [ECHO.replace(rank=3)], False), (137, [OTHER.replace(rank=3)], False), (1, [LAGGING], False),
        (137, [OTHER.replace(rank=None)], False),
    ],
)  # fmt: skip
def test_the_rank_that_ended_first_is_the_cause_unless_lines_say_more(
    code: int, events: list[Event], first: bool
) -> None:
    """Lines of others that lost it are echoes; its own, a reason of another one or whom it waited for come before."""
    job = JobStatus(state="ended", exit_code=code, rank=3, node="n4")
    found = with_end(Log(events=events, later=[0] * len(events)), job).failure_of_failed
    assert found is not None and (found.kind == "rank_exit") is first
    assert not first or (found.rank, found.node, found.infrastructure) == (3, "n4", None)
