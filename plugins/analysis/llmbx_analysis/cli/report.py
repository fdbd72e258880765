"""Report on runs: print a summary and write an HTML page with curves, scaling and comparisons."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmbx.api import RunFile, RunFolder, UsageError
from llmbx.api.verbs import RUN_ARGUMENT, OutputPath, load_workspace, print_json, print_rows

if TYPE_CHECKING:
    from ..report.build import Report
    from ..report.cells import Cell

FORMATS = ("table", "markdown", "csv", "json")
SUMMARY = ("configuration", "verdict", "runs", "step time [s]", "from", "to", "MFU [%]")


@click.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN|SWEEP]…", type=RUN_ARGUMENT)
@click.option("--html", "page", type=OutputPath(), metavar="FILE", help="Path of the HTML page.")
@click.option("--svg", "drawings", type=OutputPath(), metavar="FOLDER", help="Write each chart as an SVG file.")
@click.option("--baseline", metavar="TAG", help="Compare with the newest comparable run that has this tag.")
@click.option(
    "--tolerance", default="5%", show_default=True, help="Largest change that is not counted as a difference."
)
@click.option("--window", metavar="A-B|last|auto", help="Recompute the results over these steps.")
@click.option("--single", is_flag=True, help="Use only the named runs, without their repeats.")
@click.option("--title", help="Title of the report.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Output format. Formats other than table write the page only with --html.",
)
def command(
    runs: tuple[str, ...], page: Path | None, drawings: Path | None, baseline: str | None, tolerance: str,
    window: str | None, single: bool, title: str | None, format_: str,
) -> None:  # fmt: skip
    """Report on one run, or on several side by side.

    RUN is the id of a run, a unique prefix of it, its folder, its job id or `last` (the default). SWEEP is the id of a
    sweep, a unique prefix of it or its folder. Any other folder stands for all runs in it. The repeats of a run are
    included. Runs with the same configuration are reported as repeats, with a 95 % interval over the runs. Several
    scales of one workload give a scaling chart.

    The page is a single self-contained file. Its default path is report.html in the folder of the run or, for several
    configurations or a read-only folder, llmbx-report.html in the current directory. The exit code does not depend on
    the results; use
    `llmbx compare` as a gate.

    \b
    Examples:
      llmbx report last
      llmbx report grok1_1795260605 --html scaling.html
      llmbx report last --baseline accepted --format markdown --svg plots
    """
    from llmbx.api.verbs import check_window, parse_fraction

    from ..report.build import build
    from ..report.gather import ReportOptions, gather
    from ..report.selection import select_runs

    options = ReportOptions(
        window=check_window(window) if window is not None else None,
        baseline=baseline,
        tolerance=parse_fraction(tolerance, "--tolerance"),
    )
    workspace = load_workspace()
    selected = select_runs(workspace.install, runs or ("last",), single, workspace.plugins)
    cells, notes = gather(selected.runs, workspace.install, workspace.plugins, workspace.config, options)
    report = build(cells, title, (*selected.notes, *notes))
    drawings_by_chart = _draw(report, drawings) if drawings is not None else {}
    _print(report, cells, format_, drawings_by_chart)
    if page is not None or format_ == "table":
        _write_page(report, page or _default(cells), format_)


def _print(report: Report, cells: list[Cell], format_: str, drawings: dict[tuple[str, str], str]) -> None:
    if format_ == "json":
        print_json(report)
    elif format_ == "markdown":
        from ..report.markdown import render as markdown

        click.echo(markdown(report, drawings), nl=False)
    elif format_ == "csv":
        from ..report.rows import columns, rows

        table = rows(cells)
        print_rows(table, columns(table), format_)
    else:
        _summary(report, cells)


def _summary(report: Report, cells: list[Cell]) -> None:
    """Print the summary: one run as at its end, several runs as a table."""
    from llmbx.api.verbs import render_terminal

    if len(cells) == 1 and len(cells[0].runs) == 1:
        run = cells[0].newest
        click.echo(render_terminal(run.result, run.run.folder), nl=False)
        lines = [line for section in report.sections if section.name == "against" for line in section.text]
    else:
        print_rows([_row(report, cell, index) for index, cell in enumerate(cells)], SUMMARY, "table")
        lines = [f"{v.cell}: {v.word}: {v.text}" for v in report.verdicts if v.tone == "bad"]
    for line in (*lines, *report.notes):
        click.echo(f"  {line}")


def _row(report: Report, cell: Cell, index: int) -> dict[str, object]:
    from ..report.figures import by_name

    figures = by_name(cell)
    time, mfu = figures["step time"], figures["MFU"]
    values = (cell.name, report.verdicts[index].word, len(cell.runs), time.value, time.low, time.high, mfu.value)
    return dict(zip(SUMMARY, values, strict=True))


def _default(cells: list[Cell]) -> RunFile:
    run = cells[0].newest.run
    if len(cells) == 1 and run.files.own and os.access(run.path, os.W_OK):
        return run.files.file("report.html")
    return RunFile(folder=Path(), file="llmbx-report.html")  # in place of a link that has the name


def _write_page(report: Report, path: Path | RunFile, format_: str) -> None:
    """Write the page. Its path goes to stderr if stdout has another format."""
    from llmbx.api import write_atomic

    from ..report.html import render

    if isinstance(path, RunFile):
        RunFolder(path=path.folder).write(path.file, render(report))
    else:
        write_atomic(path, render(report))
    click.echo(f"  report           {path}", err=format_ != "table")


def _draw(report: Report, folder: Path) -> dict[tuple[str, str], str]:
    """Write every chart as a file. Returns the paths by section and chart name."""
    from llmbx.api import write_atomic

    from ..report.draw import standalone

    paths = {}
    for section in report.sections:
        for chart in section.charts:
            path = folder / f"{section.name}-{chart.name}.svg"
            write_atomic(path, standalone(chart))
            paths[section.name, chart.name] = str(path)
    if not paths:
        raise UsageError("--svg: the report has no charts, because the log has no steps")
    click.echo(f"{len(paths)} charts in {folder}", err=True)
    return paths
