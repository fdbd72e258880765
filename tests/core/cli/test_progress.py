"""Live progress on a terminal and through a pipe."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable

import pytest

from llmbx.cli.progress import Progress, clock, sparkline
from llmbx.model import Event, JobStatus, RunSpec, Step

Make = Callable[..., RunSpec]


class Clock:
    """A clock that the test sets."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Screen(io.StringIO):
    """A terminal, without the control characters of a real one."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What a user sees in the end."""
        return [line.split("\r")[-1].replace("\x1b[2K", "") for line in self.getvalue().split("\n")[:-1]]


class Ascii(Screen):
    """A terminal of the locale C."""

    encoding = "ascii"


class Pipe(io.StringIO):
    """A pipe that notes when each line was written."""

    clock = Clock()

    def write(self, text: str) -> int:
        self.__dict__.setdefault("at", []).extend([self.clock.seconds] * text.count("\n"))
        return super().write(text)

    @property
    def at(self) -> list[float]:
        return list(self.__dict__.get("at", []))


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


def test_a_terminal_gets_one_line_that_moves_with_drawings(make_spec: Make) -> None:
    screen = Screen()
    progress = Progress(make_spec(steps=4), screen)
    for number, seconds in enumerate((1.0, 1.0, 2.0), 1):
        progress.step(Step(number=number, time_s=seconds, peak_memory_bytes=41_200_000_000))
    progress.close()
    assert screen.lines() == ["  step 3/4 ━━━━━━━━━───  1.333 s/step ▁▁█  41.2 GB  0:01 to go"]
    assert screen.getvalue().count("\n") == 1


def test_a_terminal_without_utf8_gets_no_drawings(make_spec: Make) -> None:
    screen = Ascii()
    progress = Progress(make_spec(steps=4), screen)
    progress.step(Step(number=1, time_s=1.0))
    progress.step(Step(number=2, time_s=3.0))
    progress.close()
    assert screen.lines() == ["  step 2/4  2.000 s/step  0:04 to go"]


def test_step_times_that_hardly_differ_are_drawn_flat() -> None:
    assert sparkline([1.0, 1.01, 1.005]) == "▁▁▁"
    assert sparkline([1.0, 1.5, 2.0]) == "▁▅█"


def test_a_pipe_gets_few_lines_and_the_last_step(make_spec: Make) -> None:
    pipe, clock_ = io.StringIO(), Clock()
    progress = Progress(make_spec(steps=50), pipe, clock_)
    for number in range(1, 51):
        clock_.seconds += 1.0
        progress.step(Step(number=number, time_s=1.0))
    lines = pipe.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["10/50", "20/50", "30/50", "40/50", "50/50"]
    assert "\r" not in pipe.getvalue()


def test_the_last_step_is_printed_once_however_often_it_is_reported(make_spec: Make) -> None:
    pipe = io.StringIO()
    progress = Progress(make_spec(steps=1), pipe, Clock())
    for loss in (1.0, 2.0, 3.0):
        progress.step(Step(number=1, time_s=1.0, loss=loss))
    assert pipe.getvalue().count("step 1/1") == 1


@pytest.mark.parametrize("steps", [0, 3])
def test_a_pipe_is_never_silent_for_15_seconds(make_spec: Make, steps: int) -> None:
    """Neither before the first step nor between two steps."""
    pipe, clock_ = Pipe(), Clock()
    pipe.clock = clock_
    progress = Progress(make_spec(steps=50), pipe, clock_)
    for number in range(1, steps + 1):
        progress.step(Step(number=number, time_s=1.0))
    for _ in range(600):
        clock_.seconds += 0.2
        progress.status(JobStatus(state="running"))
    gaps = [after - before for before, after in itertools.pairwise([0.0, *pipe.at])]
    assert min(gaps) >= 10.0 and max(gaps) < 15.0
    last = pipe.getvalue().splitlines()[-1]
    assert ("waiting for the first step" in last) == (steps == 0)
    assert ("(last step 1:" in last) == (steps > 0)


def test_a_pending_job_says_why_how_long_and_when_it_may_start(make_spec: Make) -> None:
    pipe, clock_ = io.StringIO(), Clock()
    progress = Progress(make_spec(), pipe, clock_, epoch=lambda: 1e9)
    progress.status(JobStatus(state="pending", reason="Priority", expected_start=1e9 + 5000))
    clock_.seconds = 5.0
    progress.status(JobStatus(state="pending", reason="Resources", expected_start=1e9 - 5))
    first, second = pipe.getvalue().splitlines()
    assert re.fullmatch(r"  waiting for the job, 0:00: pending: Priority; expected start \d\d:\d\d", first)
    assert second == "  waiting for the job, 0:05: pending: Resources", "a change is shown at once"


def test_notes_with_figures_of_the_same_thing_move_on_a_terminal(make_spec: Make) -> None:
    """As those of an environment that is built; others stay."""
    screen = Screen()
    progress = Progress(make_spec(), screen)
    first = ("env a1: 10 MB of 90", "env a1: its lock has no digests")
    for text in (*first, "env a1: 50 MB of 90", "env a1: ready, 7 packages", "started abcd"):
        progress.note(text)
    progress.close()
    assert screen.lines() == [*first, "env a1: ready, 7 packages", "started abcd"]


def test_a_pipe_gets_few_notes_of_the_same_thing_and_the_last_one(make_spec: Make) -> None:
    pipe, clock_ = io.StringIO(), Clock()
    progress = Progress(make_spec(), pipe, clock_)
    for second in range(25):
        clock_.seconds = float(second)
        progress.note(f"env a1: {second} MB of 24")
    progress.note("env a1: its lock has no digests")
    progress.note("started abcd")
    progress.close()
    shown = ["0", "10", "20", "24"]
    assert pipe.getvalue().splitlines() == [
        *(f"env a1: {number} MB of 24" for number in shown), "env a1: its lock has no digests", "started abcd",
    ]  # fmt: skip


def test_fatal_events_are_printed_at_once(make_spec: Make) -> None:
    pipe = io.StringIO()
    progress = Progress(make_spec(), pipe)
    progress.event(Event(kind="fact", text="harmless"))
    progress.event(Event(kind="nccl_error", text="NCCL WARN timeout", fatal=True))
    assert "NCCL WARN timeout" in pipe.getvalue() and "harmless" not in pipe.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3725, "1:02:05")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
