"""Fixtures for cells and results of sweeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.model import Result, RunSpec
from llmbx.model.result import Mfu, StepTime
from llmbx_sweep.cells import Cell

MakeCell = Callable[..., Cell]


@pytest.fixture
def make_cell(make_spec: Callable[..., RunSpec]) -> MakeCell:
    """`make_cell(gpus=8, repeats=2)`: a cell with these changes of its specification."""

    def make(repeats: int = 1, settings: dict[str, str] | None = None, **changes: Any) -> Cell:
        spec = make_spec(**changes)
        words = [spec.workload, spec.dtype, str(spec.gpus), *(f"{k}={v}" for k, v in (settings or {}).items())]
        return Cell(key=" ".join(words), spec=spec, repeats=repeats, settings=settings or {})

    return make


def made_result(run_id: str = "r_1", mean: float | None = 1.0, per_gpu: float | None = None, **more: Any) -> Result:
    """A completed result with this mean step time (seconds) and tokens/s per GPU."""
    values = {"status": "completed", "data_valid": True, "tokens_per_s_per_gpu": per_gpu, "mfu": Mfu(value=0.4)}
    return Result(run_id=run_id, step_time_s=StepTime(mean=mean), **{**values, **more})
