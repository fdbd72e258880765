"""The verdict of each cell: failed (with the cause), not a benchmark result, or the result of its comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from llmbx.api import Value

from ..compare import Comparison
from ..compare.measured import unstable
from .cells import Cell, RunData

Tone = Literal["good", "warn", "bad"]

TONES: tuple[Tone, ...] = ("bad", "warn", "good")
"""The worst one first."""


class Verdict(Value, frozen=True):
    """The verdict of one cell: a word, a sentence and further reasons. Only `good` cells have reliable figures."""

    cell: str
    tone: Tone
    word: str
    text: str
    reasons: tuple[str, ...] = ()


def grouped(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, tuple[str, ...]]]:
    """Verdicts that differ only in their cell, with the names of the cells; the worst ones first."""
    groups: dict[Verdict, list[str]] = {}
    for verdict in sorted(verdicts, key=lambda v: TONES.index(v.tone)):
        groups.setdefault(verdict.replace(cell=""), []).append(verdict.cell)
    return [(verdict, tuple(names)) for verdict, names in groups.items()]


def verdict(cell: Cell) -> Verdict:
    """The verdict of a cell. A cell with a failed run is never `good`."""
    failed = [run for run in cell.runs if run.result.status != "completed"]
    if failed:
        return _failed(cell, failed)
    if not cell.valid_runs:
        why = cell.newest.result.window.reason or "no step has a time"
        return Verdict(cell=cell.name, tone="bad", word="no measurement", text=f"The run completed, but {why}.",
                       reasons=_reasons(cell))  # fmt: skip
    slower = [comparison for comparison in cell.comparisons if comparison.verdict == "slower"]
    if slower:
        return Verdict(
            cell=cell.name, tone="bad", word="slower", text=_compared(slower[0], cell), reasons=_reasons(cell)
        )
    if _is_no_benchmark(cell):
        text = f"{_completed(cell)}; its figures are not a benchmark result of the workload."
        return Verdict(cell=cell.name, tone="warn", word="not a benchmark result", text=text, reasons=_reasons(cell))
    open_ = [comparison for comparison in cell.comparisons if comparison.verdict == "inconclusive"]
    if open_:
        return Verdict(cell=cell.name, tone="warn", word="inconclusive", text=_compared(open_[0], cell),
                       reasons=_reasons(cell))  # fmt: skip
    if cell.comparisons:
        best = cell.comparisons[0]
        return Verdict(
            cell=cell.name, tone="good", word=best.verdict, text=_compared(best, cell), reasons=_reasons(cell)
        )
    text = f"{_completed(cell)}; there is no published figure or baseline to compare it with."
    if unstable("", [run.measured for run in cell.valid_runs]):
        return Verdict(cell=cell.name, tone="warn", word="unstable", text=text, reasons=_reasons(cell))
    return Verdict(cell=cell.name, tone="good", word="valid", text=text, reasons=_reasons(cell))


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


def _completed(cell: Cell) -> str:
    """`The run completed with valid data and a stable window`, as far as that is known."""
    valid, n = len(cell.valid_runs), len(cell.runs)
    if n == 1:
        return f"The run completed with {_quality(cell)}"
    all_runs = "Both repeats" if n == 2 else f"All {n} repeats"
    return f"{all_runs if valid == n else f'{valid} of {n} repeats'} completed with {_quality(cell)}"


def _quality(cell: Cell) -> str:
    stabilities = {run.result.stability.verdict for run in cell.valid_runs}
    window = "a window" if len(cell.runs) == 1 else "windows"
    poor = sorted(verdict for verdict in stabilities if verdict not in (None, "stable"))
    if poor:
        not_stable = f"{window} that {'is' if len(cell.runs) == 1 else 'are'} not stable"
        return f"valid data, but {not_stable} ({', '.join(poor)})"
    if None in stabilities:
        return f"valid data and {window} of unknown stability"
    return f"valid data and {'a stable window' if len(cell.runs) == 1 else 'stable windows'}"


def _is_no_benchmark(cell: Cell) -> bool:
    result = cell.newest.result
    return not result.comparable or result.profiled or result.traced


def _reasons(cell: Cell) -> tuple[str, ...]:
    reasons = cell.newest.result.not_comparable_because
    return (f"not comparable with published figures: {'; '.join(reasons)}",) if reasons else ()


def _compared(comparison: Comparison, cell: Cell) -> str:
    reference = "the published figure" if comparison.a.kind == "reference" else f"the baseline {comparison.a.label}"
    return f"Compared with {reference}: {comparison.reason}. {_completed(cell)}."
