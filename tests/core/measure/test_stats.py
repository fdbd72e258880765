"""Statistics, and what is undefined."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.measure import stats

NUMBERS = st.lists(st.floats(min_value=1e-3, max_value=1e4), min_size=2, max_size=50)


@given(NUMBERS)
def test_they_agree_with_the_standard_library(values: list[float]) -> None:
    found = stats.summary(values)
    assert found["mean"] == pytest.approx(statistics.fmean(values))
    assert found["std"] == pytest.approx(statistics.stdev(values))
    assert found["median"] == pytest.approx(statistics.median(values))
    assert (found["min"], found["max"]) == (min(values), max(values))


def test_undefined_statistics_are_none() -> None:
    assert stats.summary([]) == {"mean": None, "std": None, "median": None, "min": None, "max": None}
    assert stats.summary([2.5]) == {"mean": 2.5, "std": None, "median": 2.5, "min": 2.5, "max": 2.5}


@pytest.mark.parametrize("values", [[1.0, math.inf], [math.inf, -math.inf], [math.nan, 1.0], [10**400, 1]])
def test_the_spread_of_values_that_are_not_finite_is_undefined(values: list[float]) -> None:
    assert stats.sample_std(values) is None


def test_large_values() -> None:
    assert stats.mean([1e308, 1e308, 1e308]) is None
    assert stats.mean([math.inf, -math.inf]) is None
    assert stats.sample_std([1e200, -1e200]) == pytest.approx(1.4142135623730951e200)
    assert stats.median([10**400, 1]) is None


def test_statistics_are_imported_only_when_used() -> None:
    code = "import sys, llmbx.api, llmbx.cli.main; print('statistics' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
