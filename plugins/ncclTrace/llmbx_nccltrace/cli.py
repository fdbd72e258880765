"""Analyze NCCL logs: operations, message sizes, communicators, transport and lagging ranks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmbx.api.verbs import OutputPath, format_option, print_heading, print_json, print_rows

if TYPE_CHECKING:
    from .report import Report
    from .scan import Engine


@click.command("nccl")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH|RUN…")
@format_option()
@click.option("--top", type=click.IntRange(min=1), default=12, show_default=True, help="Maximum rows per table.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "native", "python"]),
    default="auto",
    show_default=True,
    help="native is a compiled C scanner, which auto uses if it is installed; python is slower.",
)
@click.option("--html", "page", type=OutputPath(), metavar="FILE", help="Also write an HTML page.")
def command(paths: tuple[Path, ...], format_: str, top: int, engine: Engine, page: Path | None) -> None:
    """Analyze the communication in NCCL logs.

    PATH is a log or a folder of logs, such as a run folder; RUN is a run of this install (its id, `last`, @TAG …). Logs
    are streamed, so they can be of any size, and may be compressed (.gz). `llmbx run … --with nccltrace` writes such a
    log.

    \b
    Examples:
      llmbx nccl log-pretrain_grok1_314b_bf16_512.out
      llmbx nccl last
      llmbx nccl nccl_trace/ --format json
      llmbx nccl nccl_trace/ --html trace.html
    """
    from llmbx.api.verbs import path_or_run

    from .analysis import read_report

    report = read_report(
        [path_or_run(path) for path in paths], engine, lambda text: click.echo(f"llmbx: {text}", err=True)
    )
    if page is not None:
        from llmbx.api.verbs import load_plugins as load

        from .sections import section

        load().write_sections(page, "NCCL trace", (section(report),))
    if format_ == "json":
        print_json(report)
    elif format_ == "csv":
        from msgspec.structs import asdict

        from .render import OPERATIONS

        print_rows([asdict(row) for row in report.operations], OPERATIONS, format_)
    else:
        _print_tables(report, top)


def _print_tables(report: Report, top: int) -> None:
    from .render import headline, sections

    for line in headline(report):
        click.echo(line)
    for warning in report.warnings:
        print_heading(f"warning: {warning}", "\x1b[31m")
    for title, columns, rows in sections(report, top):
        if rows:
            print_heading(f"\n{title}")
            print_rows(rows, columns, "table")
