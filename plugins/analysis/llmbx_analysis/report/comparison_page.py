"""The report on one comparison: the verdict and the change first, then both sides on common axes, and differences."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from llmbx.api import Column, Fact, Scalar, Section, Table
from llmbx.entry.secrets import blank

from ..compare import Comparison, Measured, MeasuredRun
from ..compare.comparison import Side
from ..compare.comparison import Verdict as Word
from ..formatting import quantity as format_quantity
from .build import Report
from .comparison_charts import charts
from .comparisons import difference_tables, metrics_table
from .figures import describe_interval
from .overview import Overview, machine, software
from .times import started
from .verdicts import Tone, Verdict

TONES: dict[Word, Tone] = {
    "equivalent": "good", "faster": "good", "slower": "bad", "inconclusive": "warn", "not comparable": "warn"
}  # fmt: skip


def build(found: Comparison, a: Sequence[Measured], b: Sequence[Measured]) -> Report:
    """The report on a comparison of the runs `a` (empty for a published row) and `b`, both with the newest last."""
    sections = (_figures(found, a, b), _differences(found), _sides(a, b))
    reason = f"{found.reason[:1].upper()}{found.reason[1:]}."
    rest = "" if found.verdict != "not comparable" else (
        " The figures below are no verdict." if found.metrics else " `llmbx compare --force` shows the figures."
    )  # fmt: skip
    return Report(
        title="Comparison of B with A",
        verdicts=(Verdict(cell="B", tone=TONES[found.verdict], word=found.verdict, text=reason + rest),),
        sections=sections,
        results=tuple(run.result for run in (*a, *b)),
        overview=Overview(facts=tuple(_facts(found)), context=tuple(_context(found, a, b))),
    )


def _facts(found: Comparison) -> Iterator[Fact]:
    change = found.change
    if change is not None:
        known = change.low != change.high
        yield Fact(
            name=f"change of {found.gate.replace('_', ' ')}", value=100 * change.fraction, unit="%",
            low=100 * change.low if known else None, high=100 * change.high if known else None,
            formula="100 × (B / A - 1)",
            of=f"{100 * change.level:g} % interval over {change.over}" if known else "no interval",
            note=f"B relative to A; tolerance {100 * found.tolerance:g} %",
        )  # fmt: skip
    for name, side in (("A", found.a), ("B", found.b)):
        if side.step_time_s is not None:
            yield _step_time(name, side)


def _step_time(name: str, side: Side) -> Fact:
    time = side.step_time_s
    assert time is not None
    fact = Fact(name=f"step time of {name}", value=time.mean, unit="s", formula="mean of the measured steps")
    if time.method in ("exact", "rounded"):
        return fact.replace(formula="as published" if side.kind == "reference" else fact.formula)
    return fact.replace(low=max(0.0, time.low), high=time.high, of=describe_interval(time, len(side.runs)))


def _context(found: Comparison, a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[tuple[str, str]]:
    for name, side, runs in (("A", found.a, a), ("B", found.b, b)):
        known = [run for run in runs if isinstance(run, MeasuredRun)]
        yield name, _label(side) + (f", {machine(known)}; started {started(known[-1].record.created)}" if known else "")


def _label(side: Side) -> str:
    kind = {"baseline": f"baseline {side.label}", "reference": f"published: {side.label}"}.get(side.kind, side.label)
    return f"{kind} ({len(side.runs)} runs)" if len(side.runs) > 1 else kind


def _figures(found: Comparison, a: Sequence[Measured], b: Sequence[Measured]) -> Section:
    return Section(
        name="figures",
        title="Step times and metrics",
        warnings=found.warnings,
        charts=charts(found, a, b) if found.metrics else (),
        tables=(metrics_table(found, "metrics of both sides", ("A", "B")),) if found.metrics else (),
    )


def _differences(found: Comparison) -> Section:
    other = "the recipe of the published figure" if found.a.kind == "reference" else "A"
    known = " that the logs state" if {"log", "logs"} & {found.a.kind, found.b.kind} else ""
    tables = difference_tables(found.differences, ("A", "B"), found.a.kind == "reference")
    text = () if tables else (f"B has no differences from {other}{known}.",)
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
