"""The cells of a sweep as test cases of JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from llmbx.api import Result
from llmbx.api.verbs import JunitCase, JunitVerdict, Workspace, junit_figures, junit_verdict, print_junit

from .cells import Cell
from .state import Slot
from .summary import Row

UNITS = {
    "step_time_s": "s", "ci95_low": "s", "ci95_high": "s", "tokens_per_s": "tokens/s",
    "tokens_per_s_per_gpu": "tokens/s", "mfu": "fraction", "efficiency": "fraction",
}  # fmt: skip
"""Figures of a cell with their units."""


def print_cells(
    cells: Sequence[Cell], results: Mapping[Slot, Result], rows: Sequence[Row], workspace: Workspace, allowed: float
) -> None:
    """Print one case per cell."""
    found = [
        _case(cell, [results[slot] for slot in sorted(results) if slot[0] == cell.key], row, workspace, allowed)
        for cell, row in zip(cells, rows, strict=True)
    ]
    print_junit("llmbx sweep", found)


def _case(cell: Cell, done: Sequence[Result], row: Row, workspace: Workspace, allowed: float) -> JunitCase:
    verdict = junit_verdict(done, cell.spec, workspace, allowed) if done else JunitVerdict()
    if verdict.outcome == "passed" and len(done) < cell.repeats:
        missing = f"{len(done)} of {cell.repeats} runs done"
        verdict = JunitVerdict(outcome="skipped", type="missing", message=missing)
    times = [result.timing.total_s for result in done]
    return JunitCase(
        name=cell.key,
        about=cell.spec.workload,
        verdict=verdict,
        time_s=sum(time for time in times if time is not None) if times and None not in times else None,
        text=junit_figures({name: value for name, value in msgspec.to_builtins(row).items() if name in UNITS}, UNITS),
    )
