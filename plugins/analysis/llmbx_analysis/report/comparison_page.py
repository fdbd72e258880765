"""The report on one comparison: the verdict and the change first, then both sides on common axes, and differences."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from llmbx.api import Axis, Chart, Column, Fact, Point, Rule, Scalar, Section, Series, Table, median_of, plural
from llmbx.api.verbs import format_number
from llmbx.entry.secrets import blank
from llmbx_verdict.statistics import series as step_series

from ..compare import Comparison, Measured, MeasuredRun
from ..compare.comparison import Side
from ..compare.comparison import Verdict as Word
from ..compare.measured import times
from ..formatting import quantity as format_quantity
from ..formatting import started
from .build import Report
from .comparisons import difference_tables, metrics_table
from .curves import WIDTHS, shared_bars
from .figures import describe_interval
from .overview import Overview, machine, software
from .verdicts import Tone, Verdict

TONES: dict[Word, Tone] = {
    "equivalent": "good", "faster": "good", "slower": "bad", "inconclusive": "warn", "not comparable": "warn"
}  # fmt: skip


def build(comparison: Comparison, a: Sequence[Measured], b: Sequence[Measured]) -> Report:
    """The report on a comparison of the runs `a` (empty for a published row) and `b`, both with the newest last."""
    sections = (_figures(comparison, a, b), _differences(comparison), _sides(a, b))
    reason = f"{comparison.reason[:1].upper()}{comparison.reason[1:]}."
    hint = ""
    if comparison.verdict == "not comparable":
        forced = bool(comparison.metrics)
        hint = " The figures below are not a verdict." if forced else " `llmbx compare --force` shows the figures."
    return Report(
        title="Comparison of B with A",
        verdicts=(Verdict(cell="B", tone=TONES[comparison.verdict], word=comparison.verdict, text=reason + hint),),
        sections=sections,
        results=tuple(run.result for run in (*a, *b)),
        overview=Overview(facts=tuple(_facts(comparison)), context=tuple(_context(comparison, a, b))),
    )


def _facts(comparison: Comparison) -> Iterator[Fact]:
    change = comparison.change
    if change is not None:
        has_interval = change.low != change.high
        yield Fact(
            name=f"change of {comparison.gate.replace('_', ' ')}", value=100 * change.fraction, unit="%",
            low=100 * change.low if has_interval else None, high=100 * change.high if has_interval else None,
            formula="100 × (B / A - 1)",
            of=f"{100 * change.level:g} % interval over {change.over}" if has_interval else "no interval",
            note=f"B relative to A; tolerance {100 * comparison.tolerance:g} %",
        )  # fmt: skip
    for name, side in (("A", comparison.a), ("B", comparison.b)):
        if side.step_time_s is not None:
            yield _step_time(name, side)


def _step_time(name: str, side: Side) -> Fact:
    time = side.step_time_s
    assert time is not None
    fact = Fact(name=f"step time of {name}", value=time.mean, unit="s", formula="mean of the measured steps")
    if time.method == "median":
        fact = fact.replace(formula="median of the measured steps")
    if time.method in ("exact", "rounded"):
        return fact.replace(formula="as published" if side.kind == "reference" else fact.formula)
    return fact.replace(low=max(0.0, time.low), high=time.high, of=describe_interval(time, len(side.runs)))


def _context(comparison: Comparison, a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[tuple[str, str]]:
    for name, side, runs in (("A", comparison.a, a), ("B", comparison.b, b)):
        recorded = [run for run in runs if isinstance(run, MeasuredRun)]
        where = f", {machine(recorded)}; started {started(recorded[-1].record.created)}" if recorded else ""
        yield name, _label(side) + where


def _label(side: Side) -> str:
    kind = {"baseline": f"baseline {side.label}", "reference": f"published: {side.label}"}.get(side.kind, side.label)
    return f"{kind} ({len(side.runs)} runs)" if len(side.runs) > 1 else kind


def _figures(comparison: Comparison, a: Sequence[Measured], b: Sequence[Measured]) -> Section:
    return Section(
        name="figures",
        title="Step times and metrics",
        warnings=comparison.warnings,
        charts=charts(comparison, a, b) if comparison.metrics else (),
        tables=(metrics_table(comparison, "metrics of both sides", ("A", "B")),) if comparison.metrics else (),
    )


def _differences(comparison: Comparison) -> Section:
    reference = "the recipe of the published figure" if comparison.a.kind == "reference" else "A"
    stated = " that the logs state" if {"log", "logs"} & {comparison.a.kind, comparison.b.kind} else ""
    tables = difference_tables(comparison.differences, ("A", "B"), comparison.a.kind == "reference")
    text = () if tables else (f"B has no differences from {reference}{stated}.",)
    return Section(name="differences", title="Differences", text=text, tables=tuple(tables))


PROPERTIES = ("run", "status", "window", "step time", "started", "machine", "software", "command", "folder")


def _sides(a: Sequence[Measured], b: Sequence[Measured]) -> Section:
    """Where, when and how the runs of both sides ran: one column a run or log."""
    runs = [(name, number, run) for name, side in (("A", a), ("B", b)) for number, run in enumerate(side, 1)]
    several = max(len(a), len(b)) > 1
    titles = ("property", *(f"{name}, run {number}" if several else name for name, number, _ in runs))
    rows = zip(PROPERTIES, *(_run(run) for _, _, run in runs), strict=True)
    columns = tuple(Column(title=title) for title in titles)
    return Section(
        name="runs", title="Runs", tables=(Table(title="runs of both sides", columns=columns, rows=tuple(rows)),)
    )


def _run(run: Measured) -> tuple[Scalar, ...]:
    result = run.result
    status = result.status.replace("_", " ")
    cells = (
        run.name,
        status if result.data_valid else f"{status}, no valid data",
        run.window if run.is_measured else None,
        format_quantity(result.step_time_s.mean, "s"),
    )
    if not isinstance(run, MeasuredRun):
        return (*cells, *(None for _ in PROPERTIES[len(cells) :]))
    record = run.record
    return (
        *cells,
        started(record.created),
        machine([run]),
        software(run),
        blank(f"llmbx {shlex.join(record.command)}"),
        run.run.folder,
    )


Sides = Sequence[tuple[str, Sequence[Measured]]]


def charts(comparison: Comparison, a: Sequence[Measured], b: Sequence[Measured]) -> tuple[Chart, ...]:
    """The charts for which the sides have data: distributions, means of the repeats, and steps of the newest runs."""
    sides = [(name, runs) for name, runs in (("A", a), ("B", b)) if runs and all(run.is_measured for run in runs)]
    made = (_distributions(comparison, sides), _means(sides), _steps(sides))
    return tuple(chart for chart in made if chart is not None)


def _distributions(comparison: Comparison, sides: Sides) -> Chart | None:
    """Both distributions over the same bars; None for fewer than four steps or if all are equal."""
    values = {name: sorted(time for run in runs for time in times(run)) for name, runs in sides}
    values = {name: seconds for name, seconds in values.items() if seconds}
    all_times = [time for seconds in values.values() for time in seconds]
    if len(all_times) < 4 or min(all_times) == max(all_times):
        return None
    series = zip(values, shared_bars(list(values.values())), strict=True)
    medians = "; ".join(_described(name, seconds) for name, seconds in values.items())
    return Chart(
        name="distributions",
        title="Distribution of the measured step times",
        x=Axis(title="step time", unit="s"),
        y=Axis(title="share of the steps", unit="%", zero=True),
        series=tuple(Series(name=name, points=points, marks="bars") for name, points in series),
        rules=tuple(_mean_rules(comparison)),
        summary=f"{medians}.",
        formula=f"100 × steps in the bar / measured steps of the side; {WIDTHS}, the same for both sides",
    )


def _described(name: str, seconds: Sequence[float]) -> str:
    median, number = median_of(seconds) or 0.0, format_number
    return f"{name}: {len(seconds)} steps, median {number(median)} s, {number(seconds[0])} to {number(seconds[-1])} s"


def _mean_rules(comparison: Comparison) -> Iterator[Rule]:
    for name, side in (("A", comparison.a), ("B", comparison.b)):
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
