"""Build a report from cells: verdicts first, then sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmbx.api import Column, Fact, Result, Scalar, Section, Table, Value, __version__

from ..formatting import slug
from . import comparisons, provenance, scaling_section
from .cells import Cell
from .curves import curves, label
from .figures import by_name, figures, measure_facts
from .overview import Overview, overview
from .verdicts import Verdict, verdict

MOST_CURVES = 12
"""Most cells whose curves are drawn."""

MOST_WARNINGS = 8
"""Most warnings of runs that are shown."""

SIDE_BY_SIDE = ("step time", "standard deviation", "throughput", "compute per GPU", "compute per rank", "MFU",
                "time for 1T tokens", "peak memory", "last loss")  # fmt: skip
"""Figures in the table of cells."""

FORMULAS = {
    "step time": "mean over the measured steps; with repeats, the mean of their means",
    "standard deviation": "sample standard deviation (n - 1) of the measured step times",
    "throughput": "sequence length × global batch size / step time",
    "compute per GPU": "from the log, or model FLOPs per sample × global batch size / (step time × GPUs)",
    "compute per rank": "from the log, or model FLOPs per sample × global batch size / (step time × ranks)",
    "MFU": "model FLOPs per sample × global batch size / (step time × GPUs × peak)",
    "time for 1T tokens": "10^12 / throughput / 86400 s",
    "peak memory": "largest value in the log, per GPU (10^9 bytes)",
    "last loss": "last value in the log",
}


PER_STEP = (
    "a measure of the log format over the measured steps; a rate is the sum of its counts / sum of the step times"
)


class Report(Value, frozen=True):
    """A whole report. `results` are the results of the runs as in result.json, recomputed if the window was changed.

    `verdicts` has one verdict a cell, `overview` what a page shows beside them at its beginning.
    """

    title: str
    verdicts: tuple[Verdict, ...]
    sections: tuple[Section, ...]
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    overview: Overview | None = None
    llmbx_version: str = __version__
    schema_version: int = 1


def build(cells: Sequence[Cell], title: str | None = None, notes: Sequence[str] = ()) -> Report:
    """Build the report of one cell in full, or of several cells side by side. `notes` list what was left out."""
    parts = _one_cell(cells[0]) if len(cells) == 1 else _several_cells(cells)
    return Report(
        title=title or (cells[0].name if len(cells) == 1 else f"{len(cells)} configurations"),
        verdicts=tuple(verdict(cell) for cell in cells),
        sections=_unique(parts),
        results=tuple(run.result for cell in cells for run in cell.runs),
        notes=tuple(notes),
        overview=overview(cells),
    )


def side_by_side(cells: Sequence[Cell]) -> Table:
    """The figures of all cells, one row per cell, with the interval of the step time."""
    figures = [by_name(cell) for cell in cells]
    named = dict.fromkeys(
        fact.name for cell in cells for fact in measure_facts([run.measured for run in cell.valid_runs])
    )
    with_value = {name for of_cell in figures for name, fact in of_cell.items() if fact.value is not None}
    shown = [name for name in (*SIDE_BY_SIDE, *named) if name in with_value]
    unit = {name: f[name].unit for name in shown for f in figures if name in f}
    heads = [Column(title="configuration"), Column(title="verdict"), Column(title="runs", unit="runs")]
    for name in shown:
        heads.append(Column(title=name, unit=unit[name], formula=FORMULAS.get(name, PER_STEP)))
        heads += [
            Column(title=end, unit="s", formula="95 % interval of the step time") for end in _interval_columns(name)
        ]
    rows = [(cell.name, verdict(cell).word, len(cell.runs), *_row_values(shown, facts))
            for cell, facts in zip(cells, figures, strict=True)]  # fmt: skip
    return Table(title="Configurations side by side", columns=tuple(heads), rows=tuple(rows))


def _one_cell(cell: Cell) -> Iterator[Section]:
    comparison = comparisons.section([cell])
    yield _measured(cell)
    yield from [comparison] if comparison else []
    yield from _profiler_sections(cell, several=len(cell.runs) > 1)
    if len(cell.runs) > 1:
        yield Section(name="repeats", title="Repeats", tables=(_repeats_table(cell),))
    yield provenance.configuration(cell)
    yield provenance.environment(cell)


def _several_cells(cells: Sequence[Cell]) -> Iterator[Section]:
    comparison = comparisons.section(cells)
    yield Section(name="configurations", title="Configurations", tables=(side_by_side(cells),),
                  warnings=_warnings(cells))  # fmt: skip
    yield from scaling_section.sections(cells)
    yield from [comparison] if comparison else []
    yield Section(name="what-differs", title="Differences", tables=(_differing_settings(cells),))
    for cell in cells[:MOST_CURVES]:
        yield Section(name=f"steps-{slug(cell.name)}", title=f"Steps: {cell.name}", charts=curves(cell, cell.name))
    for cell in cells:
        yield from _profiler_sections(cell, several=True)
    if len(cells) > MOST_CURVES:
        text = f"Only the first {MOST_CURVES} configurations have curves here; use `llmbx report RUN` for the others."
        yield Section(name="undrawn", title="Other curves", text=(text,))
    yield provenance.configuration(cells[0]).replace(title=f"Configuration of {cells[0].name}")
    yield provenance.files([run for cell in cells for run in cell.runs])


def _measured(cell: Cell) -> Section:
    return Section(
        name="measured", title="Measured", facts=figures(cell), charts=curves(cell), warnings=_warnings([cell])
    )


def _warnings(cells: Sequence[Cell]) -> tuple[str, ...]:
    """The warnings of the runs, prefixed with cell and run if there are several, up to `MOST_WARNINGS`."""
    warnings = []
    for cell in cells:
        for run in cell.runs:
            of = [cell.name] if len(cells) > 1 else []
            of += [label(run)] if len(cell.runs) > 1 else []
            unstable = run.result.stability.warning
            lines = (*([unstable] if unstable else []), *run.result.warnings)
            warnings += [": ".join([*of, line]) for line in lines]
    hidden = len(warnings) - MOST_WARNINGS
    return (
        tuple(warnings)
        if hidden <= 1
        else (*warnings[:MOST_WARNINGS], f"{hidden} more; use `llmbx report RUN` to see those of a run")
    )


def _profiler_sections(cell: Cell, several: bool) -> Iterator[Section]:
    for run in cell.runs:
        for section in run.sections:
            yield section.replace(title=f"{section.title}: {run.record.run_id}") if several else section


def _repeats_table(cell: Cell) -> Table:
    columns = (Column(title="run"), Column(title="status"), Column(title="step time", unit="s"),
               Column(title="standard deviation", unit="s", formula="over its measured steps"),
               Column(title="cause"))  # fmt: skip
    rows = tuple(
        (s.record.run_id, s.result.status, s.result.step_time_s.mean, s.result.step_time_s.std, s.result.cause or "")
        for s in cell.runs
    )
    return Table(title="runs of this configuration", columns=columns, rows=rows)


def _differing_settings(cells: Sequence[Cell]) -> Table:
    """The settings, images, versions and machines that differ between cells."""
    settings = [provenance.settings(cell.spec) | provenance.versions_and_machine(cell.newest.record) for cell in cells]
    every_name = dict.fromkeys(name for of_cell in settings for name in of_cell)
    names = [name for name in every_name if len({str(of_cell.get(name)) for of_cell in settings}) > 1]
    columns = (Column(title="configuration"), *(Column(title=name) for name in names))
    rows = tuple(
        (cell.name, *("unset" if of_cell.get(name) is None else str(of_cell[name]) for name in names))
        for cell, of_cell in zip(cells, settings, strict=True)
    )
    return Table(title="settings and environment that differ", columns=columns, rows=rows)


def _interval_columns(name: str) -> tuple[str, ...]:
    return ("from", "to") if name == "step time" else ()


def _row_values(shown: Sequence[str], facts: dict[str, Fact]) -> list[Scalar]:
    values: list[Scalar] = []
    for name in shown:
        figure = facts.get(name)
        values.append(figure.value if figure else None)
        values += [figure.low if figure else None, figure.high if figure else None] if _interval_columns(name) else []
    return values


def _unique(sections: Iterator[Section]) -> tuple[Section, ...]:
    """The sections with unique names, since names are anchors in the page. Duplicates get a number."""
    seen: dict[str, int] = {}
    unique = []
    for section in sections:
        count = seen[section.name] = seen.get(section.name, 0) + 1
        unique.append(section if count == 1 else section.replace(name=f"{section.name}-{count}"))
    return tuple(unique)
