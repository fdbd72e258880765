"""The shipped calibration is what benchmarks/predict makes of the shipped table."""

from __future__ import annotations

import importlib
import math
import statistics
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from llmbx_prediction.atlas import table
from llmbx_prediction.regression.posterior import Posterior
from llmbx_prediction.regression.shipped import KINDS, calibration, usable

PREDICT = Path(__file__).parents[2] / "benchmarks" / "predict"


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PREDICT))
    return importlib.import_module("folds")


def test_nine_of_ten_figures_lie_within_their_interval_without_their_gpu_type(folds: ModuleType) -> None:
    """The shipped widths, scales and coefficients belong to the shipped table.

    The GPU types are left out in turn, and each model's figures on one GPU type: the same width is for both.
    """
    shipped, used = calibration(), usable(table.shipped())
    inside: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    errors: list[float] = []
    for fold in ("GPU", "model and GPU"):
        groups = folds.groups(used, fold)
        found = folds.left_out(used, groups, [True] * len(used), shipped.coefficients, shipped.scales)
        for index, (mean, deviation, known) in found.items():
            error = abs(math.log(mean / used[index][2]))
            errors.append(error)
            width = shipped.width(used[index][1], known)
            if width is not None:
                inside[KINDS[bool(used[index][1].model.experts)]].append(error <= deviation * width)
    assert {kind: 0.85 <= statistics.mean(each) <= 0.95 for kind, each in inside.items()} == dict.fromkeys(KINDS, True)
    assert statistics.mean(errors) < 0.25


def test_a_family_has_a_factor_from_nine_errors_on(folds: ModuleType) -> None:
    """Each model counts as much as another, however many figures it has, and the next may be worse than all."""
    eight = {name: [1.0] for name in "abcdefgh"}
    assert folds.factor_of_groups(eight, 8) is None
    assert folds.factor_of_groups({**eight, "i": [3.0]}, 9) == 3.0
    assert folds.factor_of_groups({**eight, "i": [3.0], "j": [2.0] * 100, "k": [1.5]}, 11) == 3.0
    many = {str(number): [float(number)] * 5 for number in range(1, 20)}
    assert folds.factor_of_groups(many, 19) == 18.0
    assert folds.factor_of_groups(many, 95) == 18.0, "each figure an error of its own: 17.3 of 19"


def test_the_coefficients_are_those_of_the_program(folds: ModuleType) -> None:
    program = importlib.import_module("calibrate")
    assert calibration().coefficients == pytest.approx(program.COEFFICIENTS)
    assert set(calibration().scales) == set(program.SCALES)


def test_the_shipped_outliers_are_those_of_the_shipped_figures() -> None:
    used, found = usable(table.shipped()), calibration()
    whole = Posterior([c for _, c, _ in used], [t for *_, t in used], found.coefficients, found.scales)
    assert found.outliers == pytest.approx(whole.outliers(), rel=1e-6)


def test_leaving_out_without_learning_again_is_leaving_out() -> None:
    """The closed form for groups agrees with a second calibration without the group, of which the outliers are kept."""
    used = usable(table.shipped())[:120]
    shipped = calibration()
    names = [row.model for row, *_ in used]
    whole = Posterior([c for _, c, _ in used], [t for *_, t in used], shipped.coefficients, shipped.scales)
    errors, deviations = whole.without(names)
    group = names[0]
    rest = [index for index, name in enumerate(names) if name != group]
    inverse = np.linalg.inv(np.linalg.inv(whole.inverse)[np.ix_(rest, rest)])
    first = names.index(group)
    shared = np.linalg.inv(whole.inverse)[first, rest]
    expected = float(shared @ inverse @ whole.residuals[rest]) - float(whole.residuals[first])
    assert errors[first] == pytest.approx(expected, abs=1e-6)
    assert math.isfinite(float(deviations[first])) and deviations[first] > 0
