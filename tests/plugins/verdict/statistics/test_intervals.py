"""The intervals of means and of changes; tests/thorough has their coverage by simulation."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.measure import stats
from llmbx_verdict.statistics import autoregression, intervals
from llmbx_verdict.statistics.run_variation import PUBLISHED

from ....correlated_series import correlated

series = st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=4, max_size=40).filter(
    lambda values: max(values) - min(values) > 1e-3
)


def test_the_interval_without_correlation_covers_too_little() -> None:
    """Ignoring the correlation gives intervals that are too narrow."""
    seed = random.Random(5)
    held = 0
    for _ in range(400):
        plain = intervals.over_repeats(correlated(seed, 34, 0.7))
        assert plain is not None
        held += plain.low <= 5.0 <= plain.high
    assert held < 280


def test_the_interval_ends_where_the_tails_are_two_and_a_half_percent() -> None:
    values = correlated(random.Random(1), 34, 0.5)
    interval, mixture = intervals.over_steps(values), autoregression.mean(values)
    assert interval is not None and mixture is not None
    assert mixture.below(interval.low) == pytest.approx(0.025, abs=1e-5)
    assert mixture.below(interval.high) == pytest.approx(0.975, abs=1e-5)
    assert interval.low < interval.mean < interval.high


def test_by_hand_over_repeats() -> None:
    """Mean 2, deviation 1, t(0.975, 2) = 4.303: 2 ± 4.303 / sqrt(3)."""
    interval = intervals.over_repeats([1.0, 2.0, 3.0])
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(2 - 2.4843, abs=1e-3), pytest.approx(2 + 2.4843, abs=1e-3))
    assert (interval.count, interval.method) == (3, "student")


def test_correlated_steps_count_for_fewer() -> None:
    seed = random.Random(8)
    free, bound = (intervals.over_steps(correlated(seed, 100, phi)) for phi in (0.0, 0.9))
    assert free is not None and bound is not None
    assert free.effective_count is not None and bound.effective_count is not None
    assert bound.effective_count < 30 < 60 < free.effective_count <= 100
    assert (bound.correlation or 0) > 0.7 > 0.3 > abs(free.correlation or 0)


@pytest.mark.parametrize(("values", "method"), [([1.0, 1.1], "student"), ([1.0, 1.1, 1.2], "student"),
                                                ([1.0, 1.1, 1.2, 1.1], "ar1")])  # fmt: skip
def test_short_series_are_taken_as_independent(values: list[float], method: str) -> None:
    interval = intervals.over_steps(values)
    assert interval is not None and interval.method == method


def test_one_value_has_no_interval_and_equal_values_have_no_spread() -> None:
    assert intervals.over_steps([]) is None
    assert intervals.over_steps([1.0]) is None
    same = intervals.over_steps([2.0] * 20)
    assert same is not None and (same.low, same.mean, same.high) == (2.0, 2.0, 2.0)
    assert intervals.change_of_repeats([1.0], [1.1]) is None


@settings(max_examples=40, deadline=None)
@given(values=series, factor=st.floats(min_value=1e-3, max_value=1e4), offset=st.floats(min_value=0, max_value=10))
def test_units_and_offsets_move_the_interval_with_them(values: list[float], factor: float, offset: float) -> None:
    one = intervals.over_steps(values)
    two = intervals.over_steps([factor * (value + offset) for value in values])
    assert one is not None and two is not None
    width = factor * (one.high - one.low)
    assert two.low == pytest.approx(factor * (one.low + offset), abs=1e-3 * width)
    assert two.high == pytest.approx(factor * (one.high + offset), abs=1e-3 * width)


@settings(max_examples=40, deadline=None)
@given(values=series)
def test_time_runs_either_way_and_a_higher_level_is_wider(values: list[float]) -> None:
    one, back = intervals.over_steps(values), intervals.over_steps(values[::-1])
    wide = intervals.over_steps(values, 0.99)
    assert one is not None and back is not None and wide is not None
    assert (back.low, back.high) == (pytest.approx(one.low, rel=1e-6), pytest.approx(one.high, rel=1e-6))
    assert wide.low < one.low and one.high < wide.high
    assert one.mean == stats.mean(values)


@settings(max_examples=40, deadline=None)
@given(a=series, b=series)
def test_the_change_back_undoes_the_change(a: list[float], b: list[float]) -> None:
    there = intervals.change_of_repeats(a, b)
    back = intervals.change_of_repeats(b, a)
    assert there is not None and back is not None
    assert (1 + there.fraction) * (1 + back.fraction) == pytest.approx(1)
    assert (1 + there.low) * (1 + back.high) == pytest.approx(1)
    first, second = intervals.over_steps(a), intervals.over_steps(b)
    assert first is not None and second is not None
    one, two = intervals.change(first, second), intervals.change(second, first)
    assert (1 + one.low) * (1 + two.high) == pytest.approx(1)
    assert one.low <= one.fraction <= one.high


def test_an_exact_value_has_no_width_of_its_own() -> None:
    ours = intervals.over_steps(correlated(random.Random(4), 30, 0.2))
    assert ours is not None
    change = intervals.change(intervals.exact(5.0), ours)
    assert 1 + change.low == pytest.approx(ours.low / 5.0)
    assert 1 + change.high == pytest.approx(ours.high / 5.0)


def test_one_run_on_each_side_adds_the_variation_between_runs() -> None:
    """The source's own figure: 95 % of the pairs of repeats differ by about 1.03 %."""
    seed = random.Random(5)
    a, b = (intervals.over_steps(correlated(seed, 200, 0.0, mean)) for mean in (1.0, 1.02))
    assert a is not None and b is not None
    steps, runs = intervals.change(a, b), intervals.change(a, b, PUBLISHED)
    assert runs.fraction == steps.fraction and runs.prior == pytest.approx(0.0105, abs=2e-4) and steps.prior == 0
    width = (runs.high - runs.low) / 2
    assert width == pytest.approx(math.hypot((steps.high - steps.low) / 2, 0.0105 * (1 + steps.fraction)), rel=0.02)


def test_repeats_have_their_own_variation_and_equal_ones_the_prior() -> None:
    own = intervals.change_of_repeats([1.0, 1.0002, 0.9998], [1.0, 1.0002, 0.9998])
    same = intervals.change_of_repeats([1.0, 1.0], [1.0, 1.0])
    assert own is not None and same is not None
    assert own.prior == 0 and own.high < 0.0006
    assert same.prior > 0 and same.high == pytest.approx(PUBLISHED.half_width(0.95, 2, 2), rel=0.01)


def test_a_printed_figure_is_as_wide_as_its_rounding() -> None:
    printed = intervals.rounded(0.3, 0.05)
    assert (printed.low, printed.high) == (pytest.approx(0.25), pytest.approx(0.35))
    change = intervals.change(printed, intervals.exact(0.3))
    assert change.low < -0.13 and change.high > 0.15
    repeats = intervals.change_of_repeats([0.3], [0.3, 0.3001, 0.2999], rounding=0.05 / 0.3)
    assert repeats is not None and repeats.high > 0.16


def test_pairs_agree_with_the_paired_t_test() -> None:
    """By hand, with the tabled 97.5 % quantile of two degrees of freedom."""
    pairs = [(1.0, 1.03), (1.02, 1.04), (0.99, 1.05)]
    found = intervals.change_of_pairs(pairs, [False, True, False])
    assert found is not None and found.over == "pairs"
    logs = [math.log(b / a) for a, b in pairs]
    mean = sum(logs) / 3
    half = 4.302652729911275 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
    assert math.log1p(found.low) == pytest.approx(mean - half)
    assert math.log1p(found.high) == pytest.approx(mean + half)
    assert intervals.change_of_pairs(pairs[:1], [False]) is None


@pytest.mark.parametrize("count", [4, 5, 8])
def test_an_even_drift_of_the_machine_is_removed_from_pairs(count: int) -> None:
    """A B, B A, A B …: every run is 3 % slower than the one before, B is 5 % slower than A."""
    pairs, order, place = [], [], 0
    for pair in range(count):
        b_first = pair % 2 == 1
        times = {}
        for side in "ba" if b_first else "ab":
            times[side] = 1.03**place * (1.05 if side == "b" else 1.0)
            place += 1
        pairs.append((times["a"], times["b"]))
        order.append(b_first)
    found = intervals.change_of_pairs(pairs, order)
    assert found is not None and found.fraction == pytest.approx(0.05)
    assert found.high - found.low < 0.03


@pytest.mark.parametrize("slow", [0.0, 0.1])
@pytest.mark.parametrize(("count", "phi"), [(8, 0.3), (20, 0.0), (20, 0.5), (34, 0.3)])
def test_the_interval_of_a_median_contains_the_true_one(slow: float, count: int, phi: float) -> None:
    """With a tenth of the steps ten times as long, too; the true median is then that of the others' upper part."""
    source, inside = random.Random(f"{slow} {count} {phi}"), 0
    true = 1 + 0.01 * NormalDist().inv_cdf(0.5 / (1 - slow))
    for _ in range(100):
        value, values = source.gauss(0, 1), []
        for _ in range(count):
            values.append((1 + 0.01 * value) * (10 if source.random() < slow else 1))
            value = phi * value + math.sqrt(1 - phi * phi) * source.gauss(0, 1)
        found = intervals.median_over_steps(values)
        assert found is not None and found.method == "median"
        inside += found.low <= true <= found.high
    assert inside >= 88
