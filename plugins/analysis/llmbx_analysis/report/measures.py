"""The measures of a cell as figures of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmbx.api import Fact, Result, Scalar, mean_of
from llmbx_verdict.statistics import intervals

from ..compare import Measured
from ..compare.by_measure import measure_interval, value


def measure_facts(runs: Sequence[Measured]) -> Iterator[Fact]:
    """Two figures for each count (the rate and the mean per step), one for each other measure; of valid runs.

    With repeats a figure is the mean over the runs; if a run lacks the measure, it is unknown.
    """
    for name in _names(runs):
        known = next(run.result.measures[name] for run in reversed(runs) if name in run.result.measures)
        title = name.replace("_", " ")
        over = f"{known.steps} steps" if len(runs) == 1 else f"{len(runs)} runs"
        over += f"; {known.help}" if known.help else ""
        if known.kind == "count":
            formula = f"sum of {title} / sum of the step times, over {over}"
            yield _fact(f"{title} per second", f"{known.unit}/s", formula, runs, name)
            mean = mean_of([found.mean if (found := run.result.measures.get(name)) else None for run in runs])
            yield Fact(name=f"{title} per step", value=mean, unit=known.unit, formula=f"mean over {over}")
        else:
            yield _fact(title, known.unit, f"mean over {over}", runs, name)


def measure_columns(result: Result) -> dict[str, Scalar]:
    """The measures of a run as columns of CSV, by their names in `result.json`."""
    return {f"measures.{name}.{field}": number for name, known in result.measures.items()
            for field, number in known.numbers.items()}  # fmt: skip


def _fact(title: str, unit: str, formula: str, runs: Sequence[Measured], name: str) -> Fact:
    if any(value(run, name) is None for run in runs):
        return Fact(name=title, value=None, unit=unit, note="no measured step of a run has a value")
    found = measure_interval(runs, name, intervals.LEVEL)
    if found.method == "exact":
        return Fact(name=title, value=found.mean, unit=unit, formula=formula)
    return Fact(name=title, value=found.mean, unit=unit, formula=formula, low=found.low, high=found.high)


def _names(runs: Sequence[Measured]) -> list[str]:
    return [*dict.fromkeys(name for run in runs for name in run.result.measures)]
