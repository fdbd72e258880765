"""Compare a run or its repeats, or a log, with another one, a baseline or a published row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from llmbx.api import Reference, RunSpec
from llmbx_verdict.statistics import intervals
from llmbx_verdict.statistics.run_variation import PUBLISHED, Spread

from .comparability import against_published, between_runs, run_warnings, side_warnings
from .comparison import Comparison, Difference, Metric, Needed, Side, Verdict
from .differences import NOTABLE, configuration_differences, differences, recipe_differences
from .judgement import ByMeasure, Judged, detect, judge, measure_metrics
from .logs import MeasuredLog, log_differences
from .measured import (
    Measured,
    MeasuredRun,
    machines_of,
    measured,
    step_time,
    step_times,
    unknown_text,
)
from .metrics import change_of_pairs, disagreement, published_metrics, run_metrics, shape_metrics
from .verdict import STEP_TIME, Gate

__all__ = [
    "NOTABLE",
    "ByMeasure",
    "Comparison",
    "Difference",
    "Gate",
    "Measured",
    "MeasuredRun",
    "Metric",
    "Needed",
    "Side",
    "Verdict",
    "compare_published",
    "compare_runs",
    "measured",
]


def compare_runs(
    a: Sequence[Measured], b: Sequence[Measured], tolerance: float, *, force: bool = False, baseline: str | None = None,
    level: float = intervals.LEVEL, gate: Gate | ByMeasure | None = None, spread: Spread = PUBLISHED,
    to_detect: float | None = None,
) -> Comparison:  # fmt: skip
    """Compare B with A. Each side is a run, a log or several repeats (newest last); `baseline` is the tag of A, if any.

    The verdict is about the step time, or about the metric or measure of `gate`. `tolerance` and `level` are fractions.
    `spread` is how much runs of this machine vary, for one run on each side, `to_detect` the difference (a fraction)
    that the data must be able to show. If the runs are not comparable, the result has no figures, unless
    `force` is set; it never has another verdict then.
    """
    profiles = gate is not None and gate.of_profiles
    reasons = tuple(dict.fromkeys(why for run_a in a for run_b in b for why in between_runs(run_a, run_b, profiles)))
    reasons = (*reasons, *(gate.reasons if gate is not None else ()))
    figures = force or not reasons
    change = _change(a, b, level, spread) if gate is None else gate.change if figures else None
    judged = detect(judge(a, b, change if figures else None, tolerance, reasons, gate, spread), to_detect)
    sides = _step_times(a, b, level, gate) if figures else (None, None)
    metrics = _metrics(a, b, gate) if figures else ()
    return _comparison(
        judged,
        tolerance,
        gate=gate.name if gate else STEP_TIME,
        a=_side(a, sides[0], baseline),
        b=_side(b, sides[1]),
        metrics=metrics,
        differences=_differences(a, b),
        warnings=_warnings(a, b, judged, tolerance, gate, spread) if figures else (),
        not_comparable_because=reasons,
    )


def compare_published(
    reference: Reference, runs: Sequence[Measured], recipe: RunSpec | None, tolerance: float, *, force: bool = False,
    disputed: Sequence[str] = (), level: float = intervals.LEVEL, spread: Spread = PUBLISHED,
    to_detect: float | None = None,
) -> Comparison:  # fmt: skip
    """Compare runs with a published row, which is the figure of one run with the rounding of its source.

    `recipe` is the configuration of the row, `disputed` are the findings of the audit about it. If the runs are not
    comparable with it, the result has no figures, unless `force` is set.
    """
    assert reference.step_time_s is not None
    reasons = tuple(dict.fromkeys(why for run in runs for why in against_published(run, reference)))
    figures = force or not reasons
    rounding = reference.step_time_rounding_s or 0.0
    figure = intervals.rounded(reference.step_time_s, rounding, level)
    change = None
    if figures and _are_measured(runs):
        means = [run.mean_s for run in runs]
        change = intervals.change_from_figure(reference.step_time_s, rounding, means, step_time(runs, level), spread)
    judged = detect(judge((), runs, change, tolerance, reasons), to_detect)
    warnings = tuple(f"published figure disputed: {text}" for text in disputed)
    if reference.step_time_from:
        warnings += (f"the source prints no step time: it was computed from {reference.step_time_from}",)
    return _comparison(
        judged,
        tolerance,
        a=Side(kind="reference", label=reference.source, step_time_s=figure),
        b=_side(runs, step_time(runs, level) if figures and _are_measured(runs) else None),
        metrics=tuple(published_metrics(reference, runs)) if figures else (),
        differences=_from_recipe(runs[-1], recipe),
        warnings=(*warnings, *side_warnings(runs, "B")) if figures else warnings,
        not_comparable_because=reasons,
    )


def _from_recipe(run: Measured, recipe: RunSpec | None) -> tuple[Difference, ...]:
    if recipe is None or not isinstance(run, MeasuredRun):
        return ()
    return tuple(recipe_differences(run.spec, recipe))


def _metrics(a: Sequence[Measured], b: Sequence[Measured], gate: Gate | ByMeasure | None) -> tuple[Metric, ...]:
    """The rows of the table, that of the gate first."""
    rows = (*((gate.metric,) if gate else ()), *run_metrics(a, b), *measure_metrics(a, b), *shape_metrics(a, b))
    return tuple({metric.name: metric for metric in rows}.values())


def _warnings(
    a: Sequence[Measured],
    b: Sequence[Measured],
    judged: Judged,
    tolerance: float,
    gate: Gate | ByMeasure | None,
    spread: Spread,
) -> tuple[str, ...]:
    return (*run_warnings(a, b, spread), *(disagreement(judged.verdict, a, b, tolerance) if gate is None else ()))


def _comparison(
    judged: Judged, tolerance: float, *, a: Side, b: Side, metrics: tuple[Metric, ...],
    differences: tuple[Difference, ...], warnings: tuple[str, ...], not_comparable_because: tuple[str, ...],
    gate: str = STEP_TIME,
) -> Comparison:  # fmt: skip
    unknown = unknown_text(a.unknown, b.unknown) if judged.verdict != "not comparable" else None
    return Comparison(
        verdict=judged.verdict,
        reason=f"{judged.reason}; {unknown}" if unknown else judged.reason,
        change=judged.change,
        needed=judged.needed,
        detectable=judged.detectable,
        tolerance=tolerance,
        a=a,
        b=b,
        metrics=metrics,
        differences=differences,
        warnings=warnings,
        not_comparable_because=not_comparable_because,
        gate=gate,
    )


def _change(a: Sequence[Measured], b: Sequence[Measured], level: float, spread: Spread) -> intervals.Change | None:
    """The change over pairs, else over repeats if a side has repeats, else over the steps of two runs with the spread.

    None if a run is not measured.
    """
    if not _are_measured((*a, *b)):
        return None
    pairs = change_of_pairs(a, b, level)
    repeats = pairs or intervals.change_of_repeats([run.mean_s for run in a], [run.mean_s for run in b], level)
    return repeats or intervals.change(*step_times(a, b, level), spread)


def _are_measured(runs: Sequence[Measured]) -> bool:
    return all(run.is_measured for run in runs)


def _step_times(
    a: Sequence[Measured], b: Sequence[Measured], level: float, gate: Gate | ByMeasure | None
) -> tuple[intervals.Interval | None, intervals.Interval | None]:
    """The step times of both sides as they are compared; None for a side without."""
    if gate is None and _are_measured((*a, *b)):
        return step_times(a, b, level)
    time_a, time_b = (step_time(side, level) if _are_measured(side) else None for side in (a, b))
    return time_a, time_b


def _side(runs: Sequence[Measured], time: intervals.Interval | None, baseline: str | None = None) -> Side:
    return Side(
        kind="baseline" if baseline else _kind(runs),
        label=baseline or runs[-1].name,
        runs=tuple(run.name for run in runs),
        step_time_s=time,
        windows=tuple(dict.fromkeys(run.window for run in runs if run.is_measured)),
        unknown=tuple(dict.fromkeys(key for run in runs for key in run.unknown)),
    )


def _kind(runs: Sequence[Measured]) -> Literal["run", "repeats", "log", "logs"]:
    if isinstance(runs[-1], MeasuredLog):
        return "logs" if len(runs) > 1 else "log"
    return "repeats" if len(runs) > 1 else "run"


def _differences(a: Sequence[Measured], b: Sequence[Measured]) -> tuple[Difference, ...]:
    """The differences between the newest runs of both sides, the likeliest causes of another speed first."""
    runs_a, runs_b = ([run for run in side if isinstance(run, MeasuredRun)] for side in (a, b))
    if not runs_a or not runs_b:
        return log_differences(a[-1], b[-1])
    records = differences(runs_a[-1].record, runs_b[-1].record, (machines_of(runs_a), machines_of(runs_b)))
    ordered = [*records, *configuration_differences(runs_a[-1].run, runs_b[-1].run)]
    return tuple(sorted(ordered, key=lambda d: (-d.weight, d.what)))
