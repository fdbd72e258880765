"""Coarse versions of the simulations behind docs/stability.md, with fixed seeds."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def program(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(f"llmbx_benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


stability, window = program("stability"), program("window")


@pytest.mark.parametrize("count", stability.COUNTS)
def test_stationary_series_rarely_raise_an_alarm(count: int) -> None:
    """At most 5 of 100; 60 series do not show less than 10 of 100 reliably."""
    cells = {
        (phi, spread): stability.alarms(count, phi, spread, repeats=60).false
        for phi in (0.0, 0.6, 0.9)
        for spread in (0.002, 0.01)
    }
    assert {cell: share for cell, share in cells.items() if share > 0.1} == {}
    assert sum(cells.values()) / len(cells) <= stability.ALLOWED


@pytest.mark.parametrize("effect", stability.EFFECTS)
def test_effects_are_seen_and_named(effect: str) -> None:
    for count in (10, 34):
        seen, named = stability.power(effect, count, 0.002, repeats=25)
        assert seen == 1.0 and named >= 0.9, (count, seen, named)


@pytest.mark.parametrize("kind", window.WARM_UPS)
def test_the_window_auto_is_unbiased_within_half_a_percent(kind: str) -> None:
    """Beyond twice the standard error, in no noise and for short and long runs."""
    for count in (20, 50):
        found = {how: window.bias(count, kind, how, repeats=120, names=["llmbx"])["llmbx"] for how in window.NOISES}
        assert {how: cell for how, cell in found.items() if abs(cell[0]) > window.LIMIT + 2 * cell[1]} == {}


def test_the_simulation_shows_the_bias_of_other_rules() -> None:
    found = window.bias(50, "20 % decay", (0.0, 0.01, 0.0), repeats=60)
    assert found["first step"][0] > 0.015 and found["within 5 %"][0] > 0.004
    late = window.bias(50, "none", (0.3, 0.005, 0.03), repeats=200)
    assert late["MSER"][0] < -0.008
