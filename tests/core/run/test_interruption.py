"""What becomes of a run whose llmbx is asked to end."""

from __future__ import annotations

from typing import Any

import pytest

from llmbx.errors import Terminated
from llmbx.model import JobStatus, Result
from llmbx.run.pipeline import Runner, cancelled
from llmbx.run.verdict import judge

from ..launchers.conftest import make_spec


@pytest.mark.parametrize(
    ("interruption", "cause"),
    [(KeyboardInterrupt(), "interrupted by Ctrl-C"), (Terminated("SIGTERM"), "interrupted by SIGTERM")],
)
@pytest.mark.parametrize(
    "status",
    [JobStatus(state="ended", exit_code=143, verdict="cancelled", reason="stopped by SIGTERM"), JobStatus(state="lost"),
     JobStatus(state="ended", exit_code=1)],
)  # fmt: skip
def test_the_signal_is_the_cause(status: JobStatus, interruption: KeyboardInterrupt, cause: str) -> None:
    ended = cancelled(status, interruption)
    verdict = judge(make_spec(), ended, [], [])
    assert (verdict.status, verdict.cause, ended.exit_code) == ("cancelled", cause, 130)


@pytest.mark.parametrize(
    "status",
    [JobStatus(state="ended", exit_code=0),
     JobStatus(state="ended", exit_code=143, verdict="timeout", reason="TIMEOUT"),
     JobStatus(state="ended", exit_code=143, verdict="preempted", reason="PREEMPTED")],
)  # fmt: skip
def test_a_run_that_ended_for_another_reason_keeps_it(status: JobStatus) -> None:
    assert cancelled(status, Terminated("SIGTERM")) == status


@pytest.mark.parametrize(("status", "raised"), [("cancelled", False), ("preempted", True), ("completed", True)])
def test_an_interruption_ends_the_whole_command_whatever_the_run_ended_with(status: str, raised: bool) -> None:
    """`--repeat` and sweeps start no other run, and nothing is retried."""
    code = 130 if status == "cancelled" else 0
    result = Result(run_id="r", status=status, data_valid=True, exit_code=code)  # type: ignore[arg-type]

    class Interrupted(Runner):
        def _follow(self, *_: object) -> tuple[JobStatus, KeyboardInterrupt]:
            return JobStatus(state="ended"), Terminated("SIGTERM")

        def close(self, *_: object) -> Result:
            pytest.fail("an interrupted run may not start another attempt")

        def conclude(self, *_: object) -> Result:
            return result

    nothing: Any = None
    runner = Interrupted(nothing, nothing, nothing, nothing, nothing)
    if raised:
        with pytest.raises(Terminated):
            runner.attend(nothing, nothing)
    else:
        assert runner.attend(nothing, nothing) == result
