"""No figure is beyond the peak of the hardware: 100 % of it is possible, more is not, and 80 % is doubtful."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from llmbx.measure.figures import measure
from llmbx.model import Peak, RunSpec, Step
from llmbx.model.evidence import Evidence
from llmbx.model.flops import Flops
from llmbx.run.checks import run_checks
from llmbx_verdict.judge import IntervalJudge

MakeSpec = Callable[..., RunSpec]
Answers = dict[str, tuple[str, str]]

PEAK = Peak(tflops=1.0, name="a GPU of 1 TFLOP/s", source="test")
WORK = Flops(full=1e12, causal=1e12, formula="the work of a second at the peak")


def answers(make_spec: MakeSpec, times_s: Sequence[float], peak: Peak | None = PEAK) -> Answers:
    """The outcome and the line of each check of the peak, for steps of these times on one GPU."""
    spec = make_spec(gpus=1, global_batch_size=1, peak=peak, window=f"1-{len(times_s)}")
    steps = tuple(Step(number=number, time_s=time) for number, time in enumerate(times_s, start=1))
    outcomes = run_checks(
        Evidence(steps=steps, spec=spec, figures=measure(spec, steps, WORK)), IntervalJudge().checks()
    )
    checks = ("over-peak", "near-peak", "fast-step")
    return {outcome.check: (outcome.outcome, outcome.text) for outcome in outcomes if outcome.check in checks}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_what_trainings_reach_is_not_doubted(make_spec: MakeSpec, share: float) -> None:
    assert answers(make_spec, [1 / share] * 8) == {}


@pytest.mark.parametrize(("share", "percent"), [(0.82, "82"), (0.99, "99"), (1.0, "100")])
def test_what_no_published_training_reached_is_a_warning(make_spec: MakeSpec, share: float, percent: str) -> None:
    line = f"the MFU is {percent} %, more than any published training"
    assert answers(make_spec, [1 / share] * 8) == {"near-peak": ("warning", line)}


@pytest.mark.parametrize(("share", "percent"), [(1.01, "101"), (1.5, "150"), (2.5, "250")])
def test_what_the_hardware_cannot_do_is_invalid(make_spec: MakeSpec, share: float, percent: str) -> None:
    line = f"the MFU is {percent} % of the peak: no GPU is that fast"
    assert answers(make_spec, [1 / share] * 8) == {"over-peak": ("invalid", line)}


def test_a_single_step_beyond_the_peak_is_invalid_in_a_window_below_it(make_spec: MakeSpec) -> None:
    assert answers(make_spec, [2.0] * 7 + [1.1]) == {}
    line = "a step of 0.9 s is measured, but at the peak a step takes 1 s"
    assert answers(make_spec, [2.0] * 7 + [0.9]) == {"fast-step": ("invalid", line)}


def test_without_a_peak_nothing_is_compared_with_it(make_spec: MakeSpec) -> None:
    reason = "the peak of this GPU type and dtype is not known"
    expected = dict.fromkeys(("over-peak", "near-peak", "fast-step"), ("not possible", reason))
    assert answers(make_spec, [0.001] * 8, peak=None) == expected
