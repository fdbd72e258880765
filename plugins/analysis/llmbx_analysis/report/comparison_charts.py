"""Charts of a comparison: the step times of both sides on common axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmbx.api import Axis, Chart, Point, Rule, Series, median_of, plural
from llmbx.api.verbs import format_number
from llmbx_verdict.statistics import series as step_series

from ..compare import Comparison, Measured
from ..compare.measured import times
from .histogram import WIDTHS, shared_bars

Sides = Sequence[tuple[str, Sequence[Measured]]]


def charts(found: Comparison, a: Sequence[Measured], b: Sequence[Measured]) -> tuple[Chart, ...]:
    """The charts for which the sides have data: distributions, means of the repeats, and steps of the newest runs."""
    sides = [(name, runs) for name, runs in (("A", a), ("B", b)) if runs and all(run.is_measured for run in runs)]
    made = (_distributions(found, sides), _means(sides), _steps(sides))
    return tuple(chart for chart in made if chart is not None)


def _distributions(found: Comparison, sides: Sides) -> Chart | None:
    """Both distributions over the same bars; None for fewer than four steps or if all are equal."""
    values = {name: sorted(time for run in runs for time in times(run)) for name, runs in sides}
    values = {name: seconds for name, seconds in values.items() if seconds}
    every = [time for seconds in values.values() for time in seconds]
    if len(every) < 4 or min(every) == max(every):
        return None
    series = zip(values, shared_bars(list(values.values())), strict=True)
    medians = "; ".join(_described(name, seconds) for name, seconds in values.items())
    return Chart(
        name="distributions",
        title="Distribution of the measured step times",
        x=Axis(title="step time", unit="s"),
        y=Axis(title="share of the steps", unit="%", zero=True),
        series=tuple(Series(name=name, points=points, marks="bars") for name, points in series),
        rules=tuple(_mean_rules(found)),
        summary=f"{medians}.",
        formula=f"100 × steps in the bar / measured steps of the side; {WIDTHS}, the same for both sides",
    )


def _described(name: str, seconds: Sequence[float]) -> str:
    median, number = median_of(seconds) or 0.0, format_number
    return f"{name}: {len(seconds)} steps, median {number(median)} s, {number(seconds[0])} to {number(seconds[-1])} s"


def _mean_rules(found: Comparison) -> Iterator[Rule]:
    for name, side in (("A", found.a), ("B", found.b)):
        if side.step_time_s is not None:
            what = "published" if side.kind == "reference" else "mean"
            yield Rule(name=f"{name}: {what} {format_number(side.step_time_s.mean)} s", x=side.step_time_s.mean)


def _means(sides: Sides) -> Chart | None:
    """The mean of each run in the order in which they ran; None without repeats."""
    if all(len(runs) == 1 for _, runs in sides):
        return None
    series = [
        Series(name=name, points=tuple(Point(x=k, y=run.mean_s, note=run.name) for k, run in enumerate(runs, 1)))
        for name, runs in sides
    ]
    return Chart(
        name="means",
        title="Mean step time of each run",
        x=Axis(title="run", unit="number"),
        y=Axis(title="mean step time", unit="s"),
        series=tuple(series),
        summary="; ".join(f"{name}: {plural(len(runs), 'runs')}" for name, runs in sides) + ".",
        formula="mean of the measured steps of the run; the oldest run of a side is 1",
    )


def _steps(sides: Sides) -> Chart | None:
    """The measured steps of the newest run of each side."""
    series = [
        Series(name=f"{name}: {runs[-1].name}", points=step_series.thinned(
            [Point(x=step.number, y=step.time_s) for step in runs[-1].steps]
        ))
        for name, runs in sides
    ]  # fmt: skip
    if not series:
        return None
    newest = " of the newest runs" if any(len(runs) > 1 for _, runs in sides) else ""
    return Chart(
        name="steps",
        title=f"Measured steps{newest}",
        x=Axis(title="step", unit="number"),
        y=Axis(title="step time", unit="s"),
        series=tuple(series),
        summary=f"Step time of the measured steps{newest}.",
        formula="seconds per step in the log",
    )
