"""Coverage of the intervals by simulation."""

from __future__ import annotations

import random

import pytest

from llmbx_verdict.statistics import autoregression, intervals

from ..correlated_series import correlated


@pytest.mark.parametrize(
    ("count", "phi"),
    [(10, 0.0), (10, 0.4), (10, 0.6), (20, 0.5), (34, 0.0), (34, 0.3), (34, 0.7), (50, 0.6), (100, 0.0), (100, 0.9)],
)
def test_95_percent_means_93_to_97_of_100_series(count: int, phi: float) -> None:
    """The interval leaves the true mean out when its tails there are below 2.5 %; 2,000 series each."""
    seed = random.Random(count * 10 + int(phi * 100))
    held = 0
    for _ in range(2000):
        mixture = autoregression.mean(correlated(seed, count, phi))
        assert mixture is not None
        held += 0.025 <= mixture.below(5.0) <= 0.975
    assert 0.93 <= held / 2000 <= 0.97


def test_over_repeats_95_percent_means_93_to_97_of_100() -> None:
    seed = random.Random(11)
    held = 0
    for _ in range(2000):
        interval = intervals.over_repeats([seed.gauss(7, 0.1) for _ in range(5)])
        assert interval is not None
        held += interval.low <= 7 <= interval.high
    assert 0.93 <= held / 2000 <= 0.97


@pytest.mark.parametrize(("first", "second", "phi"), [(10, 10, 0.0), (34, 10, 0.5), (34, 34, 0.6)])
def test_the_interval_of_a_change_has_the_nominal_coverage(first: int, second: int, phi: float) -> None:
    seed = random.Random(first + second)
    held = 0
    for _ in range(100):
        a = intervals.over_steps(correlated(seed, first, phi))
        b = intervals.over_steps(correlated(seed, second, phi, mean=5.5, spread=0.1))
        assert a is not None and b is not None
        change = intervals.change(a, b)
        held += change.low <= 0.1 <= change.high
    assert held >= 93


def test_one_new_run_against_four_of_a_baseline() -> None:
    seed = random.Random(3)
    held = 0
    for _ in range(2000):
        change = intervals.change_of_repeats([seed.gauss(1, 0.01) for _ in range(4)], [1.02 * seed.gauss(1, 0.01)])
        assert change is not None
        held += change.low <= 0.02 <= change.high
    assert 0.93 <= held / 2000 <= 0.97
