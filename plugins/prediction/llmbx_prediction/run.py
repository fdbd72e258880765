"""The prediction for one run."""

from __future__ import annotations

import functools
from pathlib import Path

from llmbx.api import RunSpec
from llmbx.api.verbs import load_plugins

from .atlas import own, table
from .case import Case
from .cost.model import of_shape
from .prediction import Prediction, Predictor
from .specification import of_spec


def predict(spec: RunSpec, install: Path) -> Prediction:
    """Predict a run by the shipped table, and the user's figures in the install.

    Raises `UsageError` for a dtype without rates, and for figures that cannot be read.
    """
    predictor = _predictor(install, _state(install))
    return predictor.predict(case_of(spec), f"recipe {spec.recipe}")


def case_of(spec: RunSpec) -> Case:
    """The configuration of a run. Raises `UsageError` for a dtype without rates."""
    workload = load_plugins().workload(spec.workload, spec.plugin)
    model = of_shape(spec.model, f"{spec.workload}-{spec.size}")
    return of_spec(spec, model, workload)


def _state(install: Path) -> tuple[tuple[Path, int], ...]:
    return tuple((path, path.stat().st_mtime_ns) for path in own.files(install))


@functools.lru_cache(maxsize=2)
def _predictor(install: Path, state: object) -> Predictor:
    """The predictor for the own tables in this state."""
    return Predictor((*table.shipped(), *own.rows(install)))
