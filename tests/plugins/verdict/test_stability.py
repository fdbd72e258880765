"""The verdict on a window: what makes it unstable, what does not, and the numbers in the reason."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.measure.stats import mean
from llmbx.model import Step
from llmbx_verdict.stability import judge, of_window, uncertainty


def steps(times: list[float], first: int = 11) -> list[Step]:
    return [Step(number=first + i, time_s=time) for i, time in enumerate(times)]


def noise(seed: int, count: int = 34, spread: float = 0.003) -> list[float]:
    source = random.Random(seed)
    return [5 * (1 + spread * source.gauss(0, 1)) for _ in range(count)]


def verdict(times: list[float]) -> str | None:
    return judge(steps(times)).verdict


def test_a_quiet_window_is_stable_and_says_how_well_the_mean_is_known() -> None:
    found = judge(steps(noise(1)))
    assert found.verdict == "stable"
    assert re.fullmatch(r"the mean of 34 steps is uncertain by ±0\.\d+ %", found.reason or "")
    assert verdict([5.0] * 34) == "stable"


@pytest.mark.parametrize("count", [10, 34])
def test_a_throttled_half_is_two_levels_in_any_order(count: int) -> None:
    quiet = noise(2, count)
    half = count // 2
    for times in (
        [time * (2 if k >= half else 1) for k, time in enumerate(quiet)],
        [time * (2 if k < half else 1) for k, time in enumerate(quiet)],
        [time * (2 if k % 2 else 1) for k, time in enumerate(quiet)],
    ):
        found = judge(steps(times))
        assert found.verdict == "two-level"
        assert "two levels of step time" in (found.reason or "") and "the mean represents neither" in (
            found.reason or ""
        )


@pytest.mark.parametrize("count", [8, 10, 34, 100])
@pytest.mark.parametrize("where", [0, 3, -1])
def test_one_step_ten_times_as_long_is_an_outlier_with_its_share_of_the_mean(count: int, where: int) -> None:
    times = noise(3, count)
    times[where] *= 10
    found = judge(steps(times))
    assert found.verdict == "outliers"
    moved = sum(times) / (sum(times) - times[where] + times[where] / 10) - 1
    said = re.search(r"which moves the mean by up to ([\d.]+) %", found.reason or "")
    assert said and float(said[1]) / 100 <= moved * 1.02
    assert f"step {11 + where % count} (" in (found.reason or "")


def test_an_outlier_that_hardly_moves_the_mean_is_named_but_leaves_the_window_stable() -> None:
    times = noise(4, 100)
    times[50] *= 1.2
    found = judge(steps(times))
    assert found.verdict == "stable"
    assert "step 61 (" in (found.reason or "") and "moves the mean by up to 0.2 %" in (found.reason or "")


def test_slow_and_fast_outliers_do_not_cancel() -> None:
    times = noise(5, 40)
    times[10], times[20] = times[10] * 1.5, times[20] * 0.5
    assert mean(times) == pytest.approx(5, rel=0.004)
    assert verdict(times) == "outliers"


def test_a_drift_is_named_with_its_size_from_one_percent_on() -> None:
    found = judge(steps([time * (1 + 0.05 * k / 33) for k, time in enumerate(noise(6))]))
    assert found.verdict == "drifting"
    assert re.search(r"steps get [45]\.\d % slower from the first to the last of the window", found.reason or "")
    assert verdict([time * (1 + 0.005 * k / 99) for k, time in enumerate(noise(6, 100, 0.0005))]) == "stable"


def test_a_mean_that_is_not_known_within_one_percent_is_noisy() -> None:
    found = judge(steps(noise(7, 10, 0.05)))
    assert found.verdict == "noisy"
    said = re.fullmatch(
        r"the mean of 10 steps is uncertain by ±([\d.]+) %, more than ±1 %; the median is .+", found.reason or ""
    )
    assert said and 1 < float(said[1]) < 10


def test_the_uncertainty_of_independent_steps_is_that_of_the_textbook() -> None:
    times = noise(8, 400, 0.01)
    assert uncertainty(times) == pytest.approx(1.96 * 0.01 / 400**0.5, rel=0.15)


@pytest.mark.parametrize("count", [1, 7])
def test_few_steps_have_no_other_verdict(count: int) -> None:
    found = judge(steps([5.0] * (count - 1) + [50.0]))
    assert found.verdict == "too few steps"
    assert f"{count} step" in (found.reason or "") and "needs 8" in (found.reason or "")
    assert verdict([5.0] * 8) == "stable"


def test_no_steps_and_damaged_times_have_no_verdict() -> None:
    assert judge([]) == judge([Step(number=1)])
    assert judge([]).verdict is None and judge([]).reason is None
    for damaged in (0.0, -1.0, 1e300, float("inf"), float("nan")):
        found = judge(steps([*noise(9), damaged]))
        assert found.verdict is None and "not judged" in (found.reason or "")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(min_value=0.001, max_value=1e8), max_size=50))
def test_any_times_have_a_verdict_and_a_reason_in_one_line(times: list[float]) -> None:
    found = judge(steps(times))
    assert (found.verdict is None) == (not times)
    assert "\n" not in (found.reason or "") and "nan" not in (found.reason or "")


def test_the_window_last_is_judged_by_the_steady_state() -> None:
    quiet = steps([50.0, *noise(1, 40)], first=0)
    found = of_window("last", quiet, quiet[-1:])
    assert found.verdict == "stable" and (found.reason or "").startswith("steps 13-40: the mean of 28 steps")
    throttled = steps([50.0, *noise(1, 30), *(10.0 for _ in range(10))], first=0)
    assert of_window("last", throttled, throttled[-1:]).verdict == "two-level"
    assert of_window("last", steps([5.0] * 5), steps([5.0])).verdict == "too few steps"


def test_a_last_step_that_does_not_belong_to_the_steady_state_is_an_outlier() -> None:
    late = steps([50.0, *noise(1, 39), 5.2], first=0)
    found = of_window("last", late, late[-1:])
    assert found.verdict == "outliers"
    assert found.reason == "the measured step took 1.04 times as long as the median of steps 13-40"
