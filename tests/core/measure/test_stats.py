"""Statistics compared with the standard library."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.measure import stats

NUMBERS = st.lists(st.floats(min_value=1e-3, max_value=1e4), min_size=2, max_size=50)


@given(NUMBERS)
def test_they_agree_with_the_standard_library(values: list[float]) -> None:
    found = stats.summary(values)
    assert found["mean"] == pytest.approx(statistics.fmean(values))
    assert found["std"] == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-9)
    assert found["median"] == pytest.approx(statistics.median(values))
    assert (found["min"], found["max"]) == (min(values), max(values))


def test_undefined_statistics_are_none() -> None:
    assert stats.summary([]) == {"mean": None, "std": None, "median": None, "min": None, "max": None}
    assert stats.summary([2.5]) == {"mean": 2.5, "std": None, "median": 2.5, "min": 2.5, "max": 2.5}
    assert stats.coefficient_of_variation([1.0]) is None
    assert stats.coefficient_of_variation([-1.0, 1.0]) is None
    assert stats.deviation([]) is None


def test_spread_as_a_fraction_and_without_outliers() -> None:
    assert stats.coefficient_of_variation([1.0, 3.0]) == pytest.approx(2**0.5 / 2)
    assert stats.deviation([1.0, 2.0, 3.0, 4.0, 1000.0]) == pytest.approx(1.4826)
