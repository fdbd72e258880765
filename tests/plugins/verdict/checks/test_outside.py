"""Time outside of the steps of a small machine, where a line takes long to be printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.measure.figures import measure
from llmbx.model import Arrival, Event, Evidence, NotPossible, RunSpec, Step
from llmbx_verdict.checks.outside import beyond, outside, outside_of, rounded, seconds_outside

from .test_clock import followed, noisy

MakeSpec = Callable[..., RunSpec]


def evidence(spec: RunSpec, between: Callable[[int], float], time_s: float = 0.3) -> Evidence:
    """Fifty steps, with these seconds before the line of each."""
    steps = tuple(Step(number=k, time_s=time_s + 0.001 * (k % 3)) for k in range(1, 51))
    now, arrivals = 1.7e9, []
    for step in steps:
        now += (step.time_s or 0.0) + between(step.number)
        arrivals.append(Arrival(number=step.number, at=now, width=0.1))
    figures = measure(spec, steps, None, "35-44", 1)
    return Evidence(steps=steps, arrivals=tuple(arrivals), spec=spec, figures=figures, first=1)


@pytest.fixture
def spec(make_spec: MakeSpec) -> RunSpec:
    return make_spec(gpu_type="cpu", launcher="local", steps=50, window="35-44")


def test_a_pause_longer_than_the_window_is_found_on_a_cpu(spec: RunSpec) -> None:
    paused = evidence(spec, lambda number: 4.0 if number == 40 else 0.0)
    (finding,) = outside(paused) or ()
    assert not isinstance(finding, str) and not finding.warning
    assert "between the steps 35 and 44 is in no step (4.0 s)" in finding.problem
    assert seconds_outside(paused) == pytest.approx(4.0)


def test_what_the_log_has_between_the_steps_is_named_with_its_seconds(spec: RunSpec) -> None:
    before = Event(kind="compilation", text="before the first step", facts={"seconds": 30.0})
    between = (
        Event(kind="graph_capture", text="built 4 cuda graph(s)", facts={"seconds": 2.5}),
        Event(kind="garbage_collection", text="collected"),
    )
    paused = evidence(spec, lambda number: 4.0 if number == 40 else 0.0)
    (finding,) = outside(paused.replace(before=(before,), events=(before, *between))) or ()
    assert not isinstance(finding, str)
    assert "the log has 1 x capture of CUDA graphs (2.5 s), 1 x garbage collection" in finding.problem
    assert "compilation" not in finding.problem, "it is over before the first step"


def test_printing_a_line_takes_a_cpu_some_time(spec: RunSpec) -> None:
    slow = evidence(spec, lambda number: 0.06)
    assert outside(slow) is None
    assert seconds_outside(slow) == pytest.approx(47 * 0.06, rel=0.05), "but the result states it"


def test_single_late_lines_are_no_pause(spec: RunSpec) -> None:
    late = evidence(spec, lambda number: {1: 2.0, 2: -2.0, 20: 1.5, 21: -1.5, 49: 3.0}.get(number, 0.0))
    assert outside(late) is None


@pytest.mark.parametrize("block", [1, 2, 5, 10, 25])
@pytest.mark.parametrize("late", [0, 1, 2])
def test_lines_that_are_written_together_or_late_are_no_pause(block: int, late: int) -> None:
    for seed in range(20):
        buffered = followed(noisy(100, 1.0, seed, first_s=20.0), block=block, late=late, end_s=5.0)
        assert outside(buffered) is None or isinstance(outside(buffered), NotPossible)
        assert beyond(buffered) is None or isinstance(beyond(buffered), NotPossible)


def test_times_in_whole_seconds_are_named_with_their_error(spec: RunSpec) -> None:
    coarse = evidence(spec, lambda number: 0.0, time_s=4.0)
    steps = tuple(step.replace(time_s=4.0) for step in coarse.steps)
    assert (
        rounded(coarse.replace(steps=steps)) == "the times of 10 steps are whole seconds: the mean may be wrong by 12 %"
    )
    assert rounded(coarse) is None


def test_few_lines_tell_nothing(spec: RunSpec) -> None:
    few = evidence(spec, lambda number: 0.0)
    assert "fewer than 6 steps" in str(outside_of(few, few.steps[:5]))
