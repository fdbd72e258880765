"""One run (or several repeats) against another, a baseline, or a published row: how much, how sure, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmbx.errors import UsageError
from llmbx.measure import series
from llmbx.measure.intervals import LEVEL, Change, Interval, change, change_of_repeats, exact
from llmbx.model import Reference, RunSpec

from .gates import STEP_TIME, Gate
from .measured import Measured, measured, step_time, times
from .metrics import of_published, of_runs
from .refuse import against_published, between_runs
from .site import site
from .values import Comparison, Difference, Metric, Side, Verdict
from .verdict import judge
from .why import NOTABLE, differences, from_recipe

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
    level: float = LEVEL, gate: Gate | None = None,
) -> Comparison:  # fmt: skip
    """B against A, each one run or several repeats (newest last). `baseline` is the tag that A was found by.

    The verdict is on the step time, or on the figure of profiled runs that `gate` holds.

    Raises `UsageError` with every reason when they cannot be compared, unless forced.
    """
    reasons = _reasons([reason for one in a for other in b for reason in between_runs(one, other, gate is not None)])
    _admit(reasons, force, f"{_name(a)} and {_name(b)}")
    side_a, side_b = _side(a, level, baseline), _side(b, level)
    if gate is None:
        moved = _change(a, b, side_a, side_b, level)
        verdict, reason = judge(moved, tolerance)
    else:
        verdict, reason, moved = gate.judge(tolerance)
    return Comparison(
        gate=gate.figure.name if gate else STEP_TIME,
        verdict=verdict,
        reason=reason,
        change=moved,
        tolerance=tolerance,
        a=side_a,
        b=side_b,
        metrics=(*((gate.metric,) if gate else ()), *of_runs(a, b)),
        differences=tuple(differences(a[-1].record, b[-1].record, (site(a), site(b)))),
        warnings=(
            *_of_noise(a, b),
            *_of_windows(a, b),
            *_of_ends(a, "A"),
            *_of_ends(b, "B"),
            *_of_steps(a, "A"),
            *_of_steps(b, "B"),
        ),
        not_comparable_because=reasons,
    )


def compare_published(
    reference: Reference, runs: Sequence[Measured], recipe: RunSpec | None, tolerance: float, *, force: bool = False,
    disputed: Sequence[str] = (), level: float = LEVEL,
) -> Comparison:  # fmt: skip
    """Runs against a published row. `recipe` is the row's configuration, `disputed` what an audit says of the row.

    Raises `UsageError` with every reason when they cannot be compared, unless forced.
    """
    assert reference.step_time_s is not None
    reasons = _reasons([reason for run in runs for reason in against_published(run, reference)])
    _admit(reasons, force, f"{_name(runs)} and what was published")
    side = _side(runs, level)
    figure = exact(reference.step_time_s, level)
    assert side.step_time_s is not None
    moved = change(figure, side.step_time_s)
    verdict, reason = judge(moved, tolerance)
    doubts = tuple(f"published figure disputed: {text}" for text in disputed)
    return Comparison(
        verdict=verdict,
        reason=reason,
        change=moved,
        tolerance=tolerance,
        a=Side(kind="reference", label=reference.source, step_time_s=figure),
        b=side,
        metrics=tuple(of_published(reference, runs)),
        differences=tuple(from_recipe(runs[-1].spec, recipe)) if recipe is not None else (),
        warnings=(*doubts, *_single_steps(runs), *_of_ends(runs, "B"), *_of_steps(runs, "B")),
        not_comparable_because=reasons,
    )


def _change(a: Sequence[Measured], b: Sequence[Measured], side_a: Side, side_b: Side, level: float) -> Change:
    """By repeats as soon as either side has them, else by the steps of the two runs."""
    repeats = change_of_repeats([run.mean_s for run in a], [run.mean_s for run in b], level)
    if repeats is not None:
        return repeats
    return change(_known(side_a.step_time_s), _known(side_b.step_time_s))


def _known(interval: Interval | None) -> Interval:
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


def _admit(reasons: Sequence[str], force: bool, what: str) -> None:
    if reasons and not force:
        lines = "\n".join(f"  {reason}" for reason in reasons)
        raise UsageError(f"{what} cannot be compared (--force does it all the same):\n{lines}")


def _reasons(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _name(runs: Sequence[Measured]) -> str:
    return runs[-1].record.run_id


def _of_noise(a: Sequence[Measured], b: Sequence[Measured]) -> tuple[str, ...]:
    single = (*_single_steps(a), *_single_steps(b))
    if len(a) + len(b) > 2:
        return single
    return (
        *single,
        "one run each: the interval is over steps and says nothing of how runs differ; --repeat would tell",
    )


def _single_steps(runs: Sequence[Measured]) -> tuple[str, ...]:
    if len(runs) > 1 or len(times(runs[0])) > 1:
        return ()
    return (f"{runs[0].record.run_id}: a single step was measured, so nothing is known of its noise",)


def _of_windows(a: Sequence[Measured], b: Sequence[Measured]) -> tuple[str, ...]:
    windows = [{run.window for run in side} for side in (a, b)]
    if windows[0] == windows[1]:
        return ()
    one, two = (" and ".join(sorted(side)) for side in windows)
    return (f"measured over other steps: A {one}, B {two}; --window takes the same",)


def _of_ends(runs: Sequence[Measured], side: str) -> Iterator[str]:
    """Runs whose data is good but which did not end well."""
    for run in runs:
        if run.result.status != "completed":
            cause = f": {run.result.cause}" if run.result.cause else ""
            yield f"{side}: {run.record.run_id} ended with {run.result.status.replace('_', ' ')}{cause}"


def _of_steps(runs: Sequence[Measured], side: str) -> tuple[str, ...]:
    """What stands out in the steps of a run; with repeats, their means already show what matters."""
    if len(runs) > 1:
        return ()
    return tuple(f"{side}: {line}" for line in series.warnings(runs[0].steps))
