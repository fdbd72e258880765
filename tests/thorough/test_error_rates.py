"""The verdicts are as rarely wrong as the docs say: a coarse version of benchmarks/comparison.py, with a fixed seed."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "comparison.py"
COMPARISONS = {1: 50, 3: 200, -5: 200}
"""By design: the runs on each side, or -5 for five pairs. The intervals over the steps of single runs take longer."""


def most(count: int) -> float:
    """5 % by design; three standard errors of so few comparisons are added."""
    return count * (0.05 + 3 * math.sqrt(0.05 * 0.95 / count))


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("comparison_benchmark", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("design", [1, 3, -5])
@pytest.mark.parametrize(("noise", "phi"), [(0.005, 0.0), (0.02, 0.5)])
def test_wrong_verdicts_are_rare(simulation: ModuleType, design: int, noise: float, phi: float) -> None:
    count = COMPARISONS[design]
    equal = simulation.rates(count, design, noise, phi, 0.0)
    limit = simulation.rates(count, design, noise, phi, 1.0)
    assert equal["slower"] + equal["faster"] <= most(count)
    assert limit["equivalent"] <= most(count)
    assert limit["slower"] <= most(count)


@pytest.mark.parametrize("design", [1, 3, -5])
def test_clear_cases_are_decided(simulation: ModuleType, design: int) -> None:
    count = COMPARISONS[design]
    equal = simulation.rates(count, design, 0.005, 0.0, 0.0)
    twice = simulation.rates(count, design, 0.005, 0.0, 2.0)
    assert equal["equivalent"] >= 0.9 * count
    assert twice["slower"] >= 0.9 * count
