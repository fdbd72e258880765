"""Logs with the line of every n-th step: their interval, and the steps that a printed mean covers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from llmbx.measure.figures import measure
from llmbx.measure.window import begun_after, choose, log_interval, with_covers
from llmbx.model import Step


@pytest.mark.parametrize("every", [2, 5, 10, 50, 100])
def test_the_interval_is_that_of_the_lines(every: int) -> None:
    assert log_interval(range(every, 20 * every, every)) == every  # counted from 1
    assert log_interval(range(every - 1, 20 * every, every)) == every  # counted from 0
    assert log_interval([1, *range(every, 20 * every, every)]) == every  # the first step has a line, too


@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [10],
        [*range(1, 51)],
        [*range(1, 20), *range(21, 51)],  # a lost line
        [35, 44],  # two lines that remain of a damaged log
    ],
)
def test_a_log_of_every_step_has_no_interval(numbers: list[int]) -> None:
    assert log_interval(numbers) == 1


def means(numbers: Sequence[int], begun: int = 0, time_s: float = 5.0) -> list[Step]:
    return with_covers([Step(number=number, time_s=time_s) for number in numbers], begun)


def test_a_mean_covers_the_steps_since_the_line_before() -> None:
    assert [step.covers for step in means([10, 20, 30])] == [10, 10, 10]
    assert [step.covers for step in means([1, 10, 20, 30, 40, 50, 55])] == [1, 9, 10, 10, 10, 10, 5]
    assert [step.covers for step in means([10, 20, 50, 60])] == [10, 10, 10, 10]  # lines of 30 and 40 were lost
    assert [step.covers for step in means([1010, 1020, 1030], begun=1003)] == [7, 10, 10]


def test_the_training_begins_after_its_checkpoint() -> None:
    steps = means([1010, 1020, 1030])
    assert begun_after([1003], 1, steps) == 1003
    assert begun_after([1020], 1, steps) == 0  # saved and loaded later
    assert begun_after([], 0, steps) == -1


def test_a_window_measures_the_intervals_that_it_holds() -> None:
    window, chosen = choose(means(range(10, 501, 10)), "300-445")
    assert [step.number for step in chosen] == [*range(310, 441, 10)]
    assert window.reason == "as requested; each line has the mean of 10 steps"
    assert choose(means(range(10, 501, 10)), "35-44")[0].reason is not None
    assert choose(means(range(10, 501, 10)), "35-44")[1] == []
    assert choose(means(range(10, 441, 10)), "300-450")[0].reason == "the log ends at step 440"


def test_a_profiled_step_excludes_its_interval() -> None:
    _, chosen = choose(means(range(10, 101, 10)), "1-100", excluded=[45])
    assert 50 not in [step.number for step in chosen] and len(chosen) == 9


def test_the_mean_weighs_each_line_with_its_steps() -> None:
    steps = [
        Step(number=1, time_s=25.0),
        *(Step(number=n, time_s=5.0, tflops_per_gpu=400.0) for n in range(10, 51, 10)),
    ]
    figures = measure(None, with_covers(steps, 0), policy="1-50")
    assert figures.steps_measured == 50
    assert figures.step_time_s.mean == pytest.approx((25.0 + 49 * 5.0) / 50)
    assert figures.tflops_per_gpu.mean == pytest.approx(400.0)
    assert any("mean of every 10 steps" in line for line in figures.warnings)


def test_single_steps_of_an_interval_are_measured_as_they_are() -> None:
    steps = [Step(number=number, time_s=5.0) for number in range(9, 500, 10)]
    figures = measure(None, steps, policy="300-440")
    assert (figures.steps_measured, figures.step_time_s.mean) == (14, 5.0)
    assert any("one line for 10 steps" in line for line in figures.warnings)
