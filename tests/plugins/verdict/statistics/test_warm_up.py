"""The rest of a warm-up in a window: found where it is, and not where it is over."""

from __future__ import annotations

import math
import random
import re

import pytest

from llmbx.measure.window import choose
from llmbx.model import Stability, Step
from llmbx_verdict.stability import judge, of_window


def run(seed: int, size: float, tau: float, spread: float = 0.005, count: int = 50) -> list[Step]:
    """A training with this warm-up."""
    source = random.Random(seed)
    times = [1 + spread * source.gauss(0, 1) + size * math.exp(-k / tau) for k in range(count)]
    return [Step(number=k, time_s=10 * time if k == 0 else time) for k, time in enumerate(times)]


def judged(steps: list[Step], policy: str = "auto") -> Stability:
    return of_window(policy, steps, choose(steps, policy)[1])


@pytest.mark.parametrize("tau", [15.0, 20.0])
def test_a_warm_up_that_reaches_into_the_window_is_a_drift(tau: float) -> None:
    biased = [run(seed, 0.06, tau) for seed in range(20)]
    stable = sum(judged(steps).verdict == "stable" for steps in biased)
    assert stable <= 2
    assert sum(judge(choose(steps, "auto")[1]).verdict == "stable" for steps in biased) >= stable + 4


def test_the_reason_says_by_how_much_the_mean_is_too_high() -> None:
    reasons = [judged(run(seed, 0.05, 20.0), "20-49").reason or "" for seed in range(20)]
    sizes = [float(found[1]) for text in reasons if (found := re.match(r"the warm-up .* about (.*) % above", text))]
    assert len(sizes) >= 5
    assert sum(sizes) / len(sizes) == pytest.approx(0.95, abs=0.3)


@pytest.mark.parametrize(("size", "tau"), [(0.0, 1.0), (0.5, 2.0), (2.0, 1.0)])
def test_a_warm_up_that_is_over_leaves_the_window_stable(size: float, tau: float) -> None:
    assert [judged(run(seed, size, tau)).verdict for seed in range(20)] == ["stable"] * 20


def test_a_step_before_the_window_is_no_warm_up() -> None:
    steps = [step.replace(time_s=1.4 * (step.time_s or 0.0)) if step.number < 11 else step for step in run(3, 0.0, 1.0)]
    assert judged(steps, "11-44").verdict == "stable"


def test_single_slow_steps_are_no_warm_up() -> None:
    steps = run(2, 0.0, 1.0)
    late = [step.replace(time_s=1.4) if step.number in (4, 9) else step for step in steps]
    assert judged(late).verdict == "stable"


def claim(judged: Stability) -> float:
    """By how many percent the mean is said to be uncertain."""
    said = re.search(r"uncertain by ±([\d.]+) %", judged.reason or "")
    assert said is not None
    return float(said[1])


def test_what_may_be_left_of_a_warm_up_is_part_of_the_uncertainty() -> None:
    """Of a slow and small warm-up 0.28 % is left: too little to be a drift."""
    runs = [run(seed, 0.05, 10.0, 0.002) for seed in range(20)]
    stable = [steps for steps in runs if judged(steps).verdict == "stable"]
    added = [claim(judged(steps)) - claim(judge(choose(steps, "auto")[1])) for steps in stable]
    assert len(stable) >= 15
    assert sum(added) / len(added) > 0.2


def test_slow_steps_at_the_beginning_are_not_the_rest_of_a_warm_up() -> None:
    steps = [step.replace(time_s=1.3 * (step.time_s or 0.0)) if step.number < 12 else step for step in run(4, 0.0, 1.0)]
    assert "rest of a warm-up" not in (judged(steps).reason or "")
