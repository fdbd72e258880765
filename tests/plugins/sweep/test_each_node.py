"""Every cell of a sweep on each node alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.errors import UsageError
from llmbx.model import Bounds, Expected, Result
from llmbx_sweep.cells import Cell
from llmbx_sweep.each_node import compared
from llmbx_sweep.plan import Part, expand
from llmbx_sweep.state import Slot
from llmbx_sweep.summary import Row, summarize

from .conftest import made_result

MakeCell = Callable[..., Cell]
WITHIN = Expected(step_time_s=Bounds(value=1.0, low=0.9, high=1.03))


def rows(make_cell: MakeCell, means: dict[str, float | None], expected: Expected = WITHIN) -> dict[str, Row]:
    """The rows of one cell on these nodes with these step times, in seconds; None: the run failed."""
    base = make_cell()
    cells = [base.replace(key=f"{base.key} node={node}", node=node) for node in means]
    results: dict[Slot, Result] = {
        (cell.key, 1): made_result(mean=mean, data_valid=mean is not None)
        for cell, mean in zip(cells, means.values(), strict=True)
    }
    judged = compared(cells, summarize(cells, results), results, lambda spec: expected)
    return {str(row.node): row for row in judged}


def test_a_cell_runs_on_each_node_alone() -> None:
    cells = expand(Part(workload="grok1", gpus=(8,), each_node="n[1-3],m7"))
    assert [cell.node for cell in cells] == ["n1", "n2", "n3", "m7"]
    assert {cell.request.gpus for cell in cells} == {8}
    with pytest.raises(UsageError, match="--each-node n1"):
        expand(Part(workload="grok1", each_node="n1 n2"))


def test_the_slow_node_is_named_and_the_prediction_is_beside_it(make_cell: MakeCell) -> None:
    means: dict[str, float | None] = {f"n{number}": 1.0 + number / 2000 for number in range(8)}
    judged = rows(make_cell, {**means, "n9": 1.1})
    assert [node for node, row in judged.items() if row.slow] == ["n9"]
    slow = judged["n9"]
    assert slow.slower_low is not None and slow.slower_high is not None
    assert slow.slower_low < 0.1 < slow.slower_high and slow.against_prediction == "slower"
    assert judged["n1"].against_prediction == "within" and judged["n1"].predicted_step_time_s == 1.0


def test_nodes_that_differ_by_chance_and_failed_ones_are_not_called_slow(make_cell: MakeCell) -> None:
    judged = rows(make_cell, {"n1": 1.0, "n2": 1.01, "n3": 0.99, "n4": None}, Expected())
    assert not any(row.slow for row in judged.values())
    assert judged["n4"].slower is None and judged["n4"].slow is None
    assert judged["n1"].against_prediction is None
