"""Read Nsight Systems profiles: where each step's time went, on every rank."""

from __future__ import annotations

from pathlib import Path

import click

from llmbx.cli.output import Target, format_option


@click.command("nsys")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Rows of each list.")
@format_option
@click.option("--html", "page", type=Target(), metavar="FILE", help="Write a page, too.")
def command(paths: tuple[Path, ...], top: int, format_: str, page: Path | None) -> None:
    """Read profiles of nsys and say where the time of each step went.

    PATH is a report (.nsys-rep, read through the nsys of this machine), its export (.sqlite), or a folder of them, such
    as a run's: all ranks are put together. The files are only read, and nothing is fetched.

    Communication counts by union, once for what runs under computation (overlapped) and once for what nothing hides
    (exposed). --format csv prints the steps alone, json everything.

    \b
    Examples:
      llmbx nsys experiments/pretraining_grok1_mini/nsys_profile
      llmbx nsys rank0.sqlite rank8.sqlite --format json
      llmbx nsys nsys_profile --html steps.html
    """
    from llmbx.cli.output import print_json, to_csv

    from .analysis.analyze import analyze
    from .analysis.text import STEP_COLUMNS, render, step_rows

    analysis = analyze(paths, top)
    if page is not None:
        from llmbx.plugins.manager import load

        from .analysis.sections import section

        load().write_sections(page, "Profiles", (section(analysis),))
    if format_ == "json":
        print_json(analysis)
    elif format_ == "csv":
        click.echo(to_csv(step_rows(analysis), STEP_COLUMNS), nl=False)
    else:
        render(analysis)
