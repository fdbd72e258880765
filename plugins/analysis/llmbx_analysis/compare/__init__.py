"""Compare a run or its repeats with another run, a baseline or a published row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmbx.api import Reference, RunSpec, UsageError
from llmbx.api.verbs import intervals, series

from .comparability import against_published, between_runs
from .comparison import Comparison, Difference, Metric, Side, Verdict
from .differences import NOTABLE, differences, recipe_differences
from .gates import STEP_TIME, Gate
from .machines import machines_of
from .measured import Measured, measured, step_time, times
from .metrics import published_metrics, run_metrics
from .verdict import decide_verdict

__all__ = [
    "NOTABLE",
    "Comparison",
    "Difference",
    "Gate",
    "Measured",
    "Metric",
    "Side",
    "Verdict",
    "compare_published",
    "compare_runs",
    "measured",
]


def compare_runs(
    a: Sequence[Measured], b: Sequence[Measured], tolerance: float, *, force: bool = False, baseline: str | None = None,
    level: float = intervals.LEVEL, gate: Gate | None = None,
) -> Comparison:  # fmt: skip
    """Compare B with A. Each side is one run or several repeats (newest last); `baseline` is the tag of A, if any.

    The verdict is about the step time, or about the metric of `gate`. `tolerance` and `level` are fractions.

    Raises `UsageError` with all reasons if the runs are not comparable, unless `force` is set.
    """
    reasons = _reasons([reason for one in a for other in b for reason in between_runs(one, other, gate is not None)])
    _require_comparable(reasons, force, f"{_name(a)} and {_name(b)}")
    side_a, side_b = _side(a, level, baseline), _side(b, level)
    if gate is None:
        measured_change = _change(a, b, side_a, side_b, level)
        verdict, reason = decide_verdict(measured_change, tolerance)
    else:
        verdict, reason, measured_change = gate.verdict(tolerance)
    return Comparison(
        gate=gate.figure.name if gate else STEP_TIME,
        verdict=verdict,
        reason=reason,
        change=measured_change,
        tolerance=tolerance,
        a=side_a,
        b=side_b,
        metrics=(*((gate.metric,) if gate else ()), *run_metrics(a, b)),
        differences=tuple(differences(a[-1].record, b[-1].record, (machines_of(a), machines_of(b)))),
        warnings=(
            *_noise_warnings(a, b),
            *_window_warnings(a, b),
            *_status_warnings(a, "A"),
            *_status_warnings(b, "B"),
            *_step_warnings(a, "A"),
            *_step_warnings(b, "B"),
        ),
        not_comparable_because=reasons,
    )


def compare_published(
    reference: Reference, runs: Sequence[Measured], recipe: RunSpec | None, tolerance: float, *, force: bool = False,
    disputed: Sequence[str] = (), level: float = intervals.LEVEL,
) -> Comparison:  # fmt: skip
    """Compare runs with a published row.

    `recipe` is the configuration of the row, `disputed` are the findings of the audit about it. Raises `UsageError`
    with all reasons if the runs are not comparable, unless `force` is set.
    """
    assert reference.step_time_s is not None
    reasons = _reasons([reason for run in runs for reason in against_published(run, reference)])
    _require_comparable(reasons, force, f"{_name(runs)} and the published figures")
    side = _side(runs, level)
    figure = intervals.exact(reference.step_time_s, level)
    assert side.step_time_s is not None
    measured_change = intervals.change(figure, side.step_time_s)
    verdict, reason = decide_verdict(measured_change, tolerance)
    warnings = tuple(f"published figure disputed: {text}" for text in disputed)
    if reference.step_time_from:
        warnings += (f"the source prints no step time: it was computed from {reference.step_time_from}",)
    return Comparison(
        verdict=verdict,
        reason=reason,
        change=measured_change,
        tolerance=tolerance,
        a=Side(kind="reference", label=reference.source, step_time_s=figure),
        b=side,
        metrics=tuple(published_metrics(reference, runs)),
        differences=tuple(recipe_differences(runs[-1].spec, recipe)) if recipe is not None else (),
        warnings=(*warnings, *_single_steps(runs), *_status_warnings(runs, "B"), *_step_warnings(runs, "B")),
        not_comparable_because=reasons,
    )


def _change(a: Sequence[Measured], b: Sequence[Measured], side_a: Side, side_b: Side, level: float) -> intervals.Change:
    """The change between the means of repeats if a side has repeats, else between the steps of the two runs."""
    repeats = intervals.change_of_repeats([run.mean_s for run in a], [run.mean_s for run in b], level)
    if repeats is not None:
        return repeats
    return intervals.change(_known(side_a.step_time_s), _known(side_b.step_time_s))


def _known(interval: intervals.Interval | None) -> intervals.Interval:
    assert interval is not None
    return interval


def _side(runs: Sequence[Measured], level: float, baseline: str | None = None) -> Side:
    return Side(
        kind="baseline" if baseline else "repeats" if len(runs) > 1 else "run",
        label=baseline or runs[-1].record.run_id,
        runs=tuple(run.record.run_id for run in runs),
        step_time_s=step_time(runs, level),
        windows=tuple(dict.fromkeys(run.window for run in runs)),
    )


def _require_comparable(reasons: Sequence[str], force: bool, what: str) -> None:
    if reasons and not force:
        lines = "\n".join(f"  {reason}" for reason in reasons)
        raise UsageError(f"{what} are not comparable (--force overrides):\n{lines}")


def _reasons(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _name(runs: Sequence[Measured]) -> str:
    return runs[-1].record.run_id


def _noise_warnings(a: Sequence[Measured], b: Sequence[Measured]) -> tuple[str, ...]:
    single = (*_single_steps(a), *_single_steps(b))
    if len(a) + len(b) > 2:
        return single
    return (
        *single,
        "one run per side: the interval covers the noise of steps, not of runs; use --repeat to measure that",
    )


def _single_steps(runs: Sequence[Measured]) -> tuple[str, ...]:
    if len(runs) > 1 or len(times(runs[0])) > 1:
        return ()
    return (f"{runs[0].record.run_id}: only one step was measured, so its noise is unknown",)


def _window_warnings(a: Sequence[Measured], b: Sequence[Measured]) -> tuple[str, ...]:
    windows = [{run.window for run in side} for side in (a, b)]
    if windows[0] == windows[1]:
        return ()
    one, two = (" and ".join(sorted(side)) for side in windows)
    return (f"measured over different steps: A {one}, B {two}; --window sets the same for both",)


def _status_warnings(runs: Sequence[Measured], side: str) -> Iterator[str]:
    """Runs with valid data that did not complete."""
    for run in runs:
        if run.result.status != "completed":
            cause = f": {run.result.cause}" if run.result.cause else ""
            yield f"{side}: {run.record.run_id} ended with {run.result.status.replace('_', ' ')}{cause}"


def _step_warnings(runs: Sequence[Measured], side: str) -> tuple[str, ...]:
    """Outliers and trends in the steps of a single run. Repeats are compared by their means instead."""
    if len(runs) > 1:
        return ()
    return tuple(f"{side}: {line}" for line in series.warnings(runs[0].steps))
