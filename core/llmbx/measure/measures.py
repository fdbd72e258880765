"""Measures of the steps by name: their statistics over a window, and the rate of counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..model import Measure, Step
from ..model.result import MeasureFacts
from . import stats


def summarize(declared: Sequence[Measure], measured: Sequence[Step]) -> dict[str, MeasureFacts]:
    """The declared measures over the measured steps, by name. Without a value all numbers are None."""
    return {measure.name: _facts(measure, measured) for measure in declared}


def _facts(measure: Measure, measured: Sequence[Step]) -> MeasureFacts:
    values = [value for _, value in timed(measured, measure.name)]
    return MeasureFacts(
        unit=measure.unit,
        kind=measure.kind,
        better=measure.better,
        help=measure.help,
        steps=len(values),
        per_second=rate(timed(measured, measure.name)) if measure.kind == "count" else None,
        **stats.summary(values),
    )


def declared_in(facts: Mapping[str, MeasureFacts]) -> tuple[Measure, ...]:
    """The measures of a result as they were declared, as far as its statistics depend on it."""
    return tuple(
        Measure(name=name, unit=fact.unit, kind=fact.kind, better=fact.better, help=fact.help)
        for name, fact in facts.items()
    )


def timed(steps: Sequence[Step], name: str) -> list[tuple[float, float]]:
    """The pairs (seconds, value) of the steps that have both."""
    return [(step.time_s, step.measures[name]) for step in steps if step.time_s is not None and name in step.measures]


def rate(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The sum of counts divided by the sum of the times of their steps; None without steps.

    The mean of the rates of single steps would be another number if their counts or times vary.
    """
    seconds = math.fsum(time for time, _ in pairs)
    return math.fsum(value for _, value in pairs) / seconds if seconds > 0 else None


def gaps(facts: Mapping[str, MeasureFacts], measured: int) -> Iterator[str]:
    """Warnings about measures that some of the measured steps lack."""
    for name, fact in facts.items():
        if fact.steps < measured:
            which = "none" if not fact.steps else f"only {fact.steps}"
            yield f"{which} of the {measured} measured steps {'have' if fact.steps != 1 else 'has'} the measure {name}"
