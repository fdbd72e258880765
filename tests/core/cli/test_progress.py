"""Live progress on a terminal and through a pipe."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from llmbx.cli.progress import Progress, clock
from llmbx.model import Event, JobStatus, RunSpec, Step

Make = Callable[..., RunSpec]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_has_step_pace_loss_and_time_to_go(make_spec: Make) -> None:
    progress = Progress(make_spec(steps=20), io.StringIO())
    for number, seconds in enumerate([9.0, *[0.5] * 10], 1):
        progress.step(Step(number=number, time_s=seconds, loss=3.21))
    assert progress.line() == "step 11/20  0.500 s/step  loss 3.210  0:04 to go"


def test_a_step_that_is_reported_twice_counts_once(make_spec: Make) -> None:
    progress = Progress(make_spec(steps=20), io.StringIO())
    progress.step(Step(number=1, time_s=1.0))
    progress.step(Step(number=1, time_s=1.0, tflops_per_gpu=4.0))
    assert progress.line().startswith("step 1/20")


def test_a_terminal_gets_one_line_that_moves(make_spec: Make) -> None:
    screen = Screen()
    progress = Progress(make_spec(steps=3), screen)
    for number in range(1, 4):
        progress.step(Step(number=number, time_s=1.0))
    progress.close()
    assert screen.getvalue().count("\n") == 1 and screen.getvalue().count("\r") == 3


def test_a_pipe_gets_few_lines_and_the_last_step(make_spec: Make) -> None:
    pipe = io.StringIO()
    progress = Progress(make_spec(steps=50), pipe)
    for number in range(1, 51):
        progress.step(Step(number=number, time_s=0.01))
    lines = pipe.getvalue().splitlines()
    assert len(lines) == 2 and "step 50/50" in lines[-1] and "\r" not in pipe.getvalue()


def test_fatal_events_are_printed_at_once_and_a_pending_job_with_its_reason(make_spec: Make) -> None:
    pipe = io.StringIO()
    progress = Progress(make_spec(), pipe)
    progress.status(JobStatus(state="pending", reason="Resources"))
    progress.event(Event(kind="fact", text="harmless"))
    progress.event(Event(kind="nccl_error", text="NCCL WARN timeout", fatal=True))
    assert "pending: Resources" in pipe.getvalue() and "NCCL WARN timeout" in pipe.getvalue()
    assert "harmless" not in pipe.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3725, "1:02:05")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
