"""The cells of a sweep as test cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from llmbx.api import Result
from llmbx.api.verbs import Case, Workspace, print_cases

from .cells import Cell
from .state import Slot
from .summary import Row

UNITS = {
    "step_time_s": "s", "ci95_low": "s", "ci95_high": "s", "tokens_per_s": "tokens/s",
    "tokens_per_s_per_gpu": "tokens/s", "mfu": "fraction", "efficiency": "fraction",
}  # fmt: skip
"""Figures of a cell with their units."""


def print_cells(
    format_: str,
    cells: Sequence[Cell],
    results: Mapping[Slot, Result],
    rows: Sequence[Row],
    workspace: Workspace,
    allowed: float,
) -> None:
    """Print one case per cell."""
    cases = [
        _case(cell, [results[slot] for slot in sorted(results) if slot[0] == cell.key], row, workspace, allowed)
        for cell, row in zip(cells, rows, strict=True)
    ]
    print_cases(format_, "llmbx sweep", cases)


def _case(cell: Cell, done: Sequence[Result], row: Row, workspace: Workspace, allowed: float) -> Case:
    times = [result.timing.total_s for result in done]
    figures = msgspec.to_builtins(row)
    case = Case(
        name=cell.key,
        about=cell.spec.workload,
        time_s=sum(time for time in times if time is not None) if times and None not in times else None,
        figures={name: (figures[name], unit) for name, unit in UNITS.items()},
    )
    if done:
        case = case.judged(done, cell.spec, workspace, allowed)
    if case.outcome == "passed" and len(done) < cell.repeats:
        return case.replace(outcome="skipped", type="missing", message=f"{len(done)} of {cell.repeats} runs done")
    return case
