"""The estimated cost of a sweep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.errors import UsageError
from llmbx_sweep.cells import Cell
from llmbx_sweep.cost import cost, require_below, total

MakeCell = Callable[..., Cell]


def test_the_published_step_time_comes_before_the_time_limit(make_cell: MakeCell) -> None:
    cell = make_cell(repeats=3, gpus=16, gpus_per_node=8, steps=50, walltime_minutes=30)
    known = cost(cell, lambda spec: 7.2)
    assert (known.nodes, known.source, known.hours) == (2, "published step time", pytest.approx(0.1))
    assert (known.node_hours, known.gpu_hours) == (pytest.approx(0.6), pytest.approx(4.8))
    limited = cost(cell, lambda spec: None)
    assert (limited.source, limited.hours, limited.gpu_hours) == ("time limit", 0.5, 24.0)
    assert cost(cell, lambda spec: None, runs=1).gpu_hours == 8.0


def test_hours_without_a_source_are_unknown_and_cpu_runs_have_no_gpu_hours(make_cell: MakeCell) -> None:
    unknown = cost(make_cell(gpus=16), lambda spec: None)
    assert (unknown.source, unknown.hours, unknown.node_hours, unknown.gpu_hours) == ("unknown", None, None, None)
    on_cpu = cost(make_cell(gpu_type="cpu"), lambda spec: None)
    assert (on_cpu.node_hours, on_cpu.gpu_hours) == (None, 0.0)
    assert total([unknown, on_cpu], "gpu_hours") == (0.0, 1)


def test_a_plan_over_the_budget_or_of_unknown_cost_is_rejected(make_cell: MakeCell) -> None:
    known = cost(make_cell(gpus=16, walltime_minutes=30), lambda spec: None)
    require_below([known], 8.0)
    with pytest.raises(UsageError, match=r"--max-gpu-hours 7: the sweep would take 8.0; nothing was submitted"):
        require_below([known], 7.0)
    unknown = cost(make_cell(gpus=16), lambda spec: None)
    with pytest.raises(UsageError, match="the GPU-hours of 1 cells are unknown; set a time limit with --walltime"):
        require_below([known, unknown], 1e9)


@pytest.mark.parametrize("limit", [float("nan"), float("inf"), -1.0])
def test_an_invalid_budget_is_rejected(make_cell: MakeCell, limit: float) -> None:
    known = cost(make_cell(gpus=16, walltime_minutes=30), lambda spec: None)
    with pytest.raises(UsageError, match="expected a finite number >= 0"):
        require_below([known], limit)
