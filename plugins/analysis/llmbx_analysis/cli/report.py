"""Report on runs: a summary, and one HTML page with curves, scaling, comparisons and where each figure is from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmbx.cli.options import world
from llmbx.cli.output import Target, print_json, print_table, to_csv
from llmbx.errors import UsageError

if TYPE_CHECKING:
    from ..report.build import Report
    from ..report.subjects import Cell

FORMATS = ("table", "markdown", "csv", "json")
SUMMARY = ("configuration", "verdict", "runs", "step time [s]", "from", "to", "MFU [%]")


@click.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN|SWEEP]…")
@click.option("--html", "page", type=Target(), metavar="FILE", help="Where the page goes.")
@click.option("--svg", "drawings", type=Target(), metavar="FOLDER", help="Write each chart as SVG.")
@click.option("--baseline", metavar="TAG", help="Hold the runs against those that have this tag.")
@click.option("--tolerance", default="5%", show_default=True, help="How much slower is still the same.")
@click.option("--window", metavar="A-B|last|auto", help="Measure the runs anew over these steps.")
@click.option("--single", is_flag=True, help="Take only the runs that are named, not their repeats.")
@click.option("--title", help="The report's title.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="How to print; all but table write the page only with --html.",
)
def command(
    runs: tuple[str, ...], page: Path | None, drawings: Path | None, baseline: str | None, tolerance: str,
    window: str | None, single: bool, title: str | None, format_: str,
) -> None:  # fmt: skip
    """Report on one run, or on several side by side.

    RUN is a run's id, the beginning of it, its folder, its job id, or `last` (the default); SWEEP a sweep's id, the
    beginning of it, or its folder. Another folder means all runs in it. The repeats of a run come along. Runs of one
    configuration are joined, with the interval over them; several scales of one workload give a scaling chart.

    The page is one file that loads nothing. Without --html it is report.html in the run's folder or, for several
    configurations, llmbx-report.html here. The exit code says whether the report was made; `llmbx compare` is the gate.

    \b
    Examples:
      llmbx report last
      llmbx report grok1_1795260605 --html scaling.html
      llmbx report last --baseline accepted --format markdown --svg plots
    """
    from llmbx.cli.numbers import fraction
    from llmbx.measure.window import check

    from ..report.build import build
    from ..report.gather import Wanted, gather
    from ..report.select import chosen

    wanted = Wanted(
        window=check(window) if window is not None else None,
        baseline=baseline,
        tolerance=fraction(tolerance, "--tolerance"),
    )
    here = world()
    found = chosen(here.install, runs or ("last",), single, here.plugins)
    cells, notes = gather(found.runs, here.install, here.plugins, here.config, wanted)
    report = build(cells, title, (*found.notes, *notes))
    drawn = _draw(report, drawings) if drawings is not None else {}
    _print(report, cells, format_, drawn)
    if page is not None or format_ == "table":
        _write_page(report, page or _default(cells))


def _print(report: Report, cells: list[Cell], format_: str, drawn: dict[tuple[str, str], str]) -> None:
    if format_ == "json":
        print_json(report)
    elif format_ == "markdown":
        from ..report.markdown import render as markdown

        click.echo(markdown(report, drawn), nl=False)
    elif format_ == "csv":
        from ..report.rows import COLUMNS, rows

        click.echo(to_csv(rows(cells), COLUMNS), nl=False)
    else:
        _summary(report, cells)


def _summary(report: Report, cells: list[Cell]) -> None:
    """The report on a terminal: a run as it was told when it ended, several as a table."""
    from llmbx.cli.terminal import render

    if len(cells) == 1 and len(cells[0].subjects) == 1:
        subject = cells[0].newest
        click.echo(render(subject.result, subject.run.folder), nl=False)
        lines = [line for section in report.sections if section.name == "against" for line in section.text]
    else:
        print_table([_row(report, cell, place) for place, cell in enumerate(cells)], SUMMARY)
        lines = [f"{v.cell}: {v.word}: {v.text}" for v in report.verdicts if v.tone == "bad"]
    for line in (*lines, *report.notes):
        click.echo(f"  {line}")


def _row(report: Report, cell: Cell, place: int) -> dict[str, object]:
    from ..report.figures import figures

    known = {figure.name: figure for figure in figures(cell)}
    time, mfu = known["step time"], known["MFU"]
    values = (cell.name, report.verdicts[place].word, len(cell.subjects), time.value, time.low, time.high, mfu.value)
    return dict(zip(SUMMARY, values, strict=True))


def _default(cells: list[Cell]) -> Path:
    return Path(cells[0].newest.run.folder) / "report.html" if len(cells) == 1 else Path("llmbx-report.html")


def _write_page(report: Report, path: Path) -> None:
    from llmbx.files import write_atomic

    from ..report.html import render

    write_atomic(path, render(report))
    click.echo(f"  report           {path}")


def _draw(report: Report, folder: Path) -> dict[tuple[str, str], str]:
    """Every chart as a file; what its name is, by section and chart."""
    from llmbx.files import write_atomic

    from ..report.draw import alone

    found = {}
    for section in report.sections:
        for chart in section.charts:
            path = folder / f"{section.name}-{chart.name}.svg"
            write_atomic(path, alone(chart))
            found[section.name, chart.name] = str(path)
    if not found:
        raise UsageError("--svg: this report has no chart: no step was seen")
    click.echo(f"{len(found)} charts in {folder}", err=True)
    return found
