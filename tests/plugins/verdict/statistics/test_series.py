"""Detection of outliers, drift and levels, and its rate of false positives."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.model import Step
from llmbx_verdict.statistics.series import (
    detect,
    deviation,
    drift_words,
    level_words,
    outlier_words,
    outliers,
    two_levels,
)

from .test_intervals import correlated


def steps(times: list[float], first: int = 11) -> list[Step]:
    return [Step(number=first + i, time_s=time) for i, time in enumerate(times)]


def noise(seed: int, count: int = 34, spread: float = 0.004) -> list[float]:
    source = random.Random(seed)
    return [1 + spread * source.gauss(0, 1) for _ in range(count)]


def test_an_outlier_is_named() -> None:
    times = noise(1)
    times[7] += 0.3
    (found,) = detect(steps(times)).outliers
    assert found.number == 18
    assert found.ratio == pytest.approx(1.3, abs=0.01)
    assert outlier_words([found]) == "step 18 (1.294 s, 1.29 x the median)"


def test_throttling_is_a_drift_with_its_size() -> None:
    times = [time * (1 + 0.05 * i / 33) for i, time in enumerate(noise(2))]
    seen = detect(steps(times))
    assert seen.drift is not None and not seen.outliers and seen.levels is None
    assert seen.drift.low < 0.05 < seen.drift.high
    assert seen.drift.fraction == pytest.approx(0.05, abs=0.01)
    assert drift_words(seen.drift).startswith(f"steps get {100 * seen.drift.fraction:.1f} % slower")
    back = detect(steps(times[::-1])).drift
    assert back is not None and "faster" in drift_words(back)


def test_two_clocks_are_two_levels() -> None:
    times = [time + (0.1 if i % 3 else 0) for i, time in enumerate(noise(3))]
    seen = detect(steps(times))
    assert seen.levels is not None and seen.levels.since is None
    assert (seen.levels.low_steps, seen.levels.high_steps) == (12, 22)
    assert seen.levels.high_s - seen.levels.low_s == pytest.approx(0.1, abs=0.01)
    assert seen.outliers == ()
    assert "alternating" in level_words(seen.levels)


def test_a_change_in_the_middle_is_reported_with_its_step() -> None:
    times = [time + (0.1 if i >= 20 else 0) for i, time in enumerate(noise(4))]
    seen = detect(steps(times))
    assert seen.levels is not None and seen.levels.since == 31
    assert seen.drift is None


def test_an_outlier_does_not_hide_the_levels() -> None:
    times = [time + (0.1 if i % 2 else 0) for i, time in enumerate(noise(5))]
    times[10] = 9.0
    seen = detect(steps(times))
    assert [o.number for o in seen.outliers] == [21]
    assert seen.levels is not None


@pytest.mark.parametrize("count", [10, 34, 100])
@pytest.mark.parametrize(
    "make",
    [
        lambda seed, count: correlated(seed, count, 0.0),
        lambda seed, count: correlated(seed, count, 0.6),
        lambda seed, count: [1 + 0.1 * seed.random() for _ in range(count)],
        lambda seed, count: [round(1 + 0.002 * seed.gauss(0, 1), 3) for _ in range(count)],
    ],
    ids=["normal", "correlated", "uniform", "rounded"],
)
def test_chance_rarely_raises_a_flag(count: int, make: Callable[[random.Random, int], list[float]]) -> None:
    seed = random.Random(count)
    seen = [detect(steps(make(seed, count))) for _ in range(200)]
    assert sum(bool(s.outliers) for s in seen) <= 6
    assert sum(s.drift is not None for s in seen) <= 6
    assert sum(s.levels is not None for s in seen) <= 4


def test_too_few_steps_and_steps_without_a_time_have_no_anomalies() -> None:
    assert detect([]) == detect(steps([1.0, 9.0, 1.0])) == detect([Step(number=1)])
    assert detect(steps([1.0] * 30)) == detect([])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(min_value=0.01, max_value=100), max_size=60), st.floats(min_value=0.01, max_value=100))
def test_the_unit_of_time_does_not_matter(times: list[float], factor: float) -> None:
    one, two = steps(times), steps([time * factor for time in times])
    assert [o.number for o in outliers(one)] == pytest.approx([o.number for o in outliers(two)])
    levels, scaled = two_levels(one), two_levels(two)
    if levels is not None and scaled is not None:
        assert scaled.low_s == pytest.approx(levels.low_s * factor)


def test_one_outlier_does_not_widen_the_deviation() -> None:
    assert deviation([]) is None
    assert deviation([1.0, 2.0, 3.0, 4.0, 1000.0]) == pytest.approx(1.4826)
