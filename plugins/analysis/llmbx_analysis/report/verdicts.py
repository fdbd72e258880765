"""The verdict of each cell: failed (with the cause), not a benchmark result, or the result of its comparisons."""

from __future__ import annotations

from typing import Literal

from llmbx.api import Value

from ..compare import Comparison
from .cells import Cell, RunData

Tone = Literal["good", "warn", "bad"]


class Verdict(Value, frozen=True):
    """The verdict of one cell: a word, a sentence and further reasons. Only `good` cells have reliable figures."""

    cell: str
    tone: Tone
    word: str
    text: str
    reasons: tuple[str, ...] = ()


def verdict(cell: Cell) -> Verdict:
    """The verdict of a cell. A cell with a failed run is never `good`."""
    failed = [run for run in cell.runs if run.result.status != "completed"]
    if failed:
        return _failed(cell, failed)
    if not cell.valid_runs:
        why = cell.newest.result.window.reason or "no step has a time"
        return Verdict(cell=cell.name, tone="bad", word="no measurement", text=f"The run completed, but {why}.",
                       reasons=_reasons(cell))  # fmt: skip
    slower = [found for found in cell.comparisons if found.verdict == "slower"]
    if slower:
        return Verdict(cell=cell.name, tone="bad", word="slower", text=_compared(slower[0]), reasons=_reasons(cell))
    if _is_no_benchmark(cell):
        return Verdict(cell=cell.name, tone="warn", word="not a benchmark result",
                       text="The run completed, but its figures are not a benchmark result of the workload.",
                       reasons=_reasons(cell))  # fmt: skip
    open_ = [found for found in cell.comparisons if found.verdict == "inconclusive"]
    if open_:
        return Verdict(cell=cell.name, tone="warn", word="inconclusive", text=_compared(open_[0]),
                       reasons=_reasons(cell))  # fmt: skip
    if cell.comparisons:
        best = cell.comparisons[0]
        return Verdict(cell=cell.name, tone="good", word=best.verdict, text=_compared(best), reasons=_reasons(cell))
    runs = f"All {len(cell.runs)} repeats" if len(cell.runs) > 1 else "The run"
    return Verdict(cell=cell.name, tone="good", word="valid", text=f"{runs} completed; no comparison available.",
                   reasons=_reasons(cell))  # fmt: skip


def _failed(cell: Cell, failed: list[RunData]) -> Verdict:
    result, n = failed[-1].result, len(cell.runs)
    word = result.status.replace("_", " ")
    cause = result.cause or "unknown cause"
    causes = [f"{s.record.run_id}: {s.result.cause or s.result.status}" for s in failed[:-1]]
    if result.data_valid:
        text = f"{cause}. All steps had completed before, so the measured data is valid."
        tone: Tone = "warn"
    else:
        text, tone = cause if cause.endswith(".") else f"{cause}.", "bad"
    if n > 1:
        text = f"{len(failed)} of {n} repeats did not complete; the last one: {text}"
    return Verdict(cell=cell.name, tone=tone, word=word, text=text, reasons=(*causes, *_reasons(cell)))


def _is_no_benchmark(cell: Cell) -> bool:
    result = cell.newest.result
    return not result.comparable or result.profiled or result.traced


def _reasons(cell: Cell) -> tuple[str, ...]:
    reasons = cell.newest.result.not_comparable_because
    return (f"not comparable with published figures: {'; '.join(reasons)}",) if reasons else ()


def _compared(found: Comparison) -> str:
    other = "the published figure" if found.a.kind == "reference" else f"the baseline {found.a.label}"
    return f"Compared with {other}: {found.reason}."
