"""What a mean hides: the median and the tail have a say."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.model import Stability
from llmbx_analysis.compare.metrics import percentile

from ....run_factory import RunFactory, noise
from .test_compare import Compare, compare, read, verdict_of

__all__ = ["compare"]

STABLE = {"result": {"stability": Stability(verdict="stable")}}
"""The tests of stability have found nothing: the tail alone decides."""


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=60))
def test_the_percentile_is_that_of_the_standard_library(values: list[float]) -> None:
    expected = statistics.quantiles(values, n=20, method="inclusive")[18]
    assert percentile(values, 0.95) == pytest.approx(expected)


def tailed(mean: float, long: float, every: int) -> list[float]:
    """Step times with this mean of which one in `every` is `long` times the others."""
    usual = mean * every / (every - 1 + long)
    return [time * (long if number % every == 0 else 1) for number, time in enumerate(noise(3, usual))]


@pytest.mark.parametrize("mean", [1.0, 0.9])
def test_a_longer_tail_is_neither_equivalent_nor_faster(
    run_factory: RunFactory, compare: Compare, mean: float
) -> None:  # fmt: skip
    a = run_factory.put(noise(1, 1.0), **STABLE)
    b = run_factory.put(tailed(mean, 1.5, 7), **STABLE)
    done = compare(a.record.run_id, b.record.run_id, "--tolerance", "5.5%")
    assert done.exit_code == 5
    assert verdict_of(done).startswith("inconclusive: ")
    found = read(compare(a.record.run_id, b.record.run_id, "--format", "json"))
    tail = {m["name"]: m for m in found["metrics"]}["p95_to_median"]
    assert tail["a"] < 1.02 and tail["b"] == pytest.approx(1.5, abs=0.03)


def test_the_hidden_difference_is_named(run_factory: RunFactory, compare: Compare) -> None:
    """The interval of the mean alone would say equivalent: 8 % of the steps take 1.4 times as long."""
    a = run_factory.put(noise(1, 1.0, count=400), window="11-399", steps=400, **STABLE)
    times = [t * (1.4 if k % 12 == 0 else 1) * 0.968 for k, t in enumerate(noise(2, 1.0, count=400))]
    b = run_factory.put(times, window="11-399", steps=400, **STABLE)
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 5
    assert "within the 5 % tolerance, but the mean hides a difference: the 95th percentile" in verdict_of(done)


def test_slower_by_a_few_steps_is_said_so(run_factory: RunFactory, compare: Compare) -> None:
    a = run_factory.put(noise(1, 1.0, count=400), window="11-399", steps=400, **STABLE)
    times = [t * (4 if k % 12 == 0 else 1) for k, t in enumerate(noise(2, 1.0, count=400))]
    b = run_factory.put(times, window="11-399", steps=400, **STABLE)
    done = compare(a.record.run_id, b.record.run_id)
    assert done.exit_code == 3
    assert "the median of the step times changes by only" in done.stdout
