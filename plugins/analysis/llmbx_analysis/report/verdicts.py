"""The first thing a report says of each cell: failed (and why), or measured, and what the figure is good for. Pure."""

from __future__ import annotations

from typing import Literal

from llmbx.model import Value

from ..compare import Comparison
from .subjects import Cell, Subject

Tone = Literal["good", "warn", "bad"]


class Verdict(Value, frozen=True):
    """One cell's verdict: a word, a sentence, and what has to be known with it. Only `good` is a figure to rely on."""

    cell: str
    tone: Tone
    word: str
    text: str
    reasons: tuple[str, ...] = ()


def verdict(cell: Cell) -> Verdict:
    """The verdict on a cell. A cell with a failed run is never good; its cause comes first."""
    failed = [subject for subject in cell.subjects if subject.result.status != "completed"]
    if failed:
        return _failed(cell, failed)
    if not cell.sound:
        why = cell.newest.result.window.reason or "no step has a time"
        return Verdict(cell=cell.name, tone="bad", word="measured nothing", text=f"The run ended well, but {why}.",
                       reasons=_reasons(cell))  # fmt: skip
    slower = [found for found in cell.against if found.verdict == "slower"]
    if slower:
        return Verdict(cell=cell.name, tone="bad", word="slower", text=_held(slower[0]), reasons=_reasons(cell))
    if _no_figure(cell):
        return Verdict(cell=cell.name, tone="warn", word="no figure",
                       text="The run completed and was measured, but it is no figure of the workload's performance.",
                       reasons=_reasons(cell))  # fmt: skip
    if cell.against:
        best = cell.against[0]
        return Verdict(cell=cell.name, tone="good", word=best.verdict, text=_held(best), reasons=_reasons(cell))
    runs = f"All {len(cell.subjects)} repeats" if len(cell.subjects) > 1 else "The run"
    return Verdict(cell=cell.name, tone="good", word="valid", text=f"{runs} completed; nothing was compared.",
                   reasons=_reasons(cell))  # fmt: skip


def _failed(cell: Cell, failed: list[Subject]) -> Verdict:
    first, n = failed[-1], len(cell.subjects)
    result = first.result
    word = result.status.replace("_", " ")
    cause = result.cause or "no cause is known"
    causes = [f"{s.record.run_id}: {s.result.cause or s.result.status}" for s in failed[:-1]]
    if result.data_valid:
        text = f"{cause}. All steps were done before: the measured data is whole."
        tone: Tone = "warn"
    else:
        text, tone = cause if cause.endswith(".") else f"{cause}.", "bad"
    if n > 1:
        text = f"{len(failed)} of {n} repeats did not complete; the last of them: {text}"
    return Verdict(cell=cell.name, tone=tone, word=word, text=text, reasons=(*causes, *_reasons(cell)))


def _no_figure(cell: Cell) -> bool:
    result = cell.newest.result
    return not result.comparable or result.profiled or result.traced


def _reasons(cell: Cell) -> tuple[str, ...]:
    reasons = cell.newest.result.not_comparable_because
    return (f"not comparable with published figures: {'; '.join(reasons)}",) if reasons else ()


def _held(found: Comparison) -> str:
    against = "the published figure" if found.a.kind == "reference" else f"the baseline {found.a.label}"
    return f"Against {against}: {found.reason}."
