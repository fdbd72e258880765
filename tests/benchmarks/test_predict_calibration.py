"""The shipped calibration is what benchmarks/predict makes of the shipped table."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from llmbx_prediction.atlas import table
from llmbx_prediction.regression.posterior import Posterior
from llmbx_prediction.regression.shipped import calibration, usable

PREDICT = Path(__file__).parents[2] / "benchmarks" / "predict"


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PREDICT))
    return importlib.import_module("calibrate")


def test_the_intervals_follow_from_the_table_and_the_scales(calibrate: ModuleType) -> None:
    shipped, used = calibration(), usable(table.shipped())
    assert shipped.coefficients == pytest.approx(calibrate.COEFFICIENTS)
    folds = {name: calibrate.groups(used, name) for name in calibrate.FOLDS}
    cases, seconds = [case for _, case, _ in used], [time for *_, time in used]
    posterior = Posterior(cases, seconds, shipped.coefficients, shipped.scales)
    assert calibrate.intervals(used, folds, posterior) == pytest.approx(shipped.quantiles, rel=0.02)


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
