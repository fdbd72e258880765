"""Analyze Nsight Systems profiles: time breakdown of each step on every rank."""

from __future__ import annotations

from pathlib import Path

import click

from llmbx.api.verbs import OutputPath, format_option, print_json, print_rows


@click.command("nsys")
@click.argument("paths", nargs=-1, required=True, metavar="PATH|RUN...", type=click.Path(path_type=Path))
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Maximum rows per table.")
@format_option()
@click.option("--html", "page", type=OutputPath(), metavar="FILE", help="Also write an HTML page.")
def command(paths: tuple[Path, ...], top: int, format_: str, page: Path | None) -> None:
    """Analyze Nsight Systems profiles and show the time breakdown of each step.

    PATH is a report (.nsys-rep, exported with the local nsys), an SQLite export (.sqlite), or a folder of them, such as
    a run folder; RUN is a run of this install (its id, `last`, @TAG …). The ranks of all files are combined. Files are
    not modified, and nothing is downloaded.

    Communication time is the union of kernel times, split into time that overlaps computation (overlapped) and the rest
    (exposed). --format csv prints only the steps, json prints everything.

    \b
    Examples:
      llmbx nsys experiments/pretraining_grok1_mini/nsys_profile
      llmbx nsys last
      llmbx nsys rank0.sqlite rank8.sqlite --format json
      llmbx nsys nsys_profile --html steps.html
    """
    from llmbx.api.verbs import path_or_run

    from .analysis.analyze import analyze
    from .analysis.tables import STEP_COLUMNS, render, step_rows

    analysis = analyze([path_or_run(path) for path in paths], top)
    if page is not None:
        from llmbx.api.verbs import load_plugins as load

        from .analysis.sections import section

        load().write_sections(page, "Profiles", (section(analysis),))
    if format_ == "json":
        print_json(analysis)
    elif format_ == "csv":
        print_rows(step_rows(analysis), STEP_COLUMNS, format_)
    else:
        render(analysis)
