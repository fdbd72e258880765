"""How much more has to be measured: a plan that is followed decides."""

from __future__ import annotations

import math

import pytest

from llmbx_verdict.statistics import intervals, planning
from llmbx_verdict.statistics.intervals import Change, Interval
from llmbx_verdict.statistics.student_t import quantile


def change(fraction: float, std: float, over: str = "repeats", half: float = 0.02, prior: float = 0.0) -> Change:
    low, high = fraction - half, fraction + half
    return Change(fraction=fraction, low=low, high=high, level=0.95, over=over, run_std=std, prior=prior)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fraction", "std"), [(0.03, 0.01), (0.04, 0.02), (0.08, 0.02), (-0.03, 0.01), (0.0, 0.05)])
def test_so_many_runs_give_an_interval_that_decides_and_one_less_does_not(fraction: float, std: float) -> None:
    found = planning.runs_needed(change(fraction, std), 0.05)
    assert found is not None and found > 2

    def half(count: int) -> float:
        return quantile(0.975, 2 * count - 2) * std * math.sqrt(2 / count)

    room = planning.margin(change(fraction, std), 0.05)
    assert half(found) <= room < half(found - 1)


def test_pairs_need_fewer_than_runs_that_scatter_as_much() -> None:
    pairs = planning.runs_needed(change(0.03, 0.01, over="pairs"), 0.05)
    runs = planning.runs_needed(change(0.03, 0.01), 0.05)
    assert pairs is not None and runs is not None and pairs <= runs


def test_a_difference_at_the_tolerance_has_no_plan() -> None:
    assert planning.runs_needed(change(0.05, 0.01), 0.05) is None
    assert planning.runs_needed(change(0.0, 0.01), 0.0) is None


def test_tolerances_and_changes_of_any_size_are_planned_without_an_error() -> None:
    assert planning.margin(change(-1.0, 0.1), 0.05) > 0
    assert planning.margin(change(0.5, 0.1), 1.0) == pytest.approx(math.log(2) - math.log(1.5))


def side(count: int) -> Interval:
    return Interval(mean=1.0, low=0.99, high=1.01, level=0.95, count=count, method="ar1")


def test_more_steps_help_only_against_the_noise_of_steps() -> None:
    noisy = change(0.0, 0.01, over="steps", half=0.06, prior=0.01)
    steps = planning.steps_needed(side(20), side(20), noisy, 0.05)
    assert steps == pytest.approx(20 * (0.06**2 - 0.01**2) / (0.0488**2 - 0.01**2), rel=0.1)
    assert planning.steps_needed(side(20), side(20), change(0.0, 0.01, "steps", 0.012, 0.0105), 0.01) is None


def test_the_plan_of_a_real_interval_uses_its_own_scatter() -> None:
    found = intervals.change_of_repeats([1.0, 1.02, 0.98], [1.03, 1.05, 1.01])
    assert found is not None and found.run_std == pytest.approx(0.02, rel=0.05)
    assert planning.runs_needed(found, 0.05) is not None
