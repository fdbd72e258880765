"""The verdict of a comparison: comparable first, then stable, then the interval, then what the mean hides."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Value
from llmbx_verdict.statistics import intervals

from .by_measure import ByMeasure
from .comparison import Needed, Verdict
from .gates import Gate
from .logs import MeasuredLog
from .measured import Measured, times
from .needed import needed, sentence
from .tails import hidden
from .unstable import unstable
from .verdict import decide_verdict


class Judged(Value, frozen=True):
    """The verdict, its reason, the change (None: no figures) and what would decide an inconclusive comparison."""

    verdict: Verdict
    reason: str
    change: intervals.Change | None = None
    needed: Needed | None = None


def judge(
    a: Sequence[Measured], b: Sequence[Measured], change: intervals.Change | None, tolerance: float,
    reasons: Sequence[str], gate: Gate | ByMeasure | None = None,
) -> Judged:  # fmt: skip
    """Judge B against A; `a` is empty for a published figure, `reasons` are those why both are not comparable."""
    if reasons or change is None:
        return Judged(
            verdict="not comparable", reason="; ".join(reasons) or "a side has no measured steps", change=change
        )
    if gate is not None:
        verdict, reason = gate.verdict(tolerance)
        why = None if gate.of_profiles else _no_mean(a, b)
        if why is not None:
            return Judged(verdict="inconclusive", reason=f"{why}; {reason}", change=change)
        return _planned(Judged(verdict=verdict, reason=reason, change=change), (), b, tolerance)
    verdict, reason = decide_verdict(change, tolerance)
    why = _no_mean(a, b)
    if why is not None:
        return Judged(verdict="inconclusive", reason=f"{why}; {reason}", change=change)
    concealed = hidden(verdict, a, b, tolerance)
    if concealed is not None:
        return Judged(verdict="inconclusive", reason=f"{reason}, but {concealed}", change=change)
    return _planned(Judged(verdict=verdict, reason=reason, change=change), a, b, tolerance)


def _no_mean(a: Sequence[Measured], b: Sequence[Measured]) -> str | None:
    """Why the mean of a side represents nothing: unstable, or one step only."""
    found = [unstable("A", a), unstable("B", b)]
    single = [runs[0] for runs in (a, b) if len(runs) == 1 and len(times(runs[0])) < 2]
    found += [f"{run.name}: {_too_few(run)}, so its noise is unknown" for run in single]
    return "; ".join(text for text in found if text) or None


def _too_few(run: Measured) -> str:
    if run.result.steps_measured > sum(step.covers for step in run.steps):
        return f"steps.jsonl has {len(run.steps)} of the {run.result.steps_measured} measured steps"
    return "only one step was measured"


def _planned(judged: Judged, a: Sequence[Measured], b: Sequence[Measured], tolerance: float) -> Judged:
    """The verdict with what would decide it, if it is inconclusive."""
    if judged.verdict != "inconclusive" or judged.change is None:
        return judged
    plan = needed(a, b, judged.change, tolerance)
    logs = any(isinstance(run, MeasuredLog) for run in (*a, *b))
    text = f"{judged.reason}; {sentence(plan, judged.change, published=not a, logs=logs)}"
    return Judged(verdict=judged.verdict, reason=text, change=judged.change, needed=plan)
