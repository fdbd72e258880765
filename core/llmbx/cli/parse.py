"""Read training logs, of llmbx or of its predecessor, and print step time and TFLOP/s."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from ..model import RunSpec, Step
from .output import format_option, print_json, to_csv

if TYPE_CHECKING:
    from ..measure import Figures

DEFAULT = Path("experiments")


@click.command("parse")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--window", metavar="A-B|last|auto", help="Steps to measure, in the log's numbers, both ends counted.")
@click.option("--full-names", is_flag=True, help="Show the logs' paths instead of the experiments' names.")
@format_option
def command(paths: tuple[Path, ...], window: str | None, full_names: bool, format_: str) -> None:
    """Print mean and sample standard deviation of step time and TFLOP/s for each training log.

    A PATH is a log, or a folder to search; without one ./experiments is read. The format is found by itself. The
    window is that of the log's recipe unless --window says otherwise: of iterations 35-44 or 11-44, or the last step;
    for a run of llmbx it is the one that the run was started with. A log that does not reach its window is
    `Failed (N iterations)`. Traces, profiles' analyses and sbatch output are left out.

    Exit code 1 when no log holds a valid measurement.

    \b
    Examples:
      llmbx parse
      llmbx parse experiments/pretrain_grok1_314b_bf16_256 --window last
      llmbx parse log-pretrain_llama3.1.out --window auto --format json
    """
    from ..errors import UsageError
    from ..logs.find import find_logs
    from ..parse import COLUMNS, parse_logs, table
    from ..plugins import load
    from ..window import check

    if not paths and not DEFAULT.is_dir():
        raise UsageError("there is no ./experiments here; name a log or a folder: llmbx parse PATH")
    chosen = check(window) if window is not None else None
    rows = parse_logs(find_logs(paths or (DEFAULT,)), load().log_formats(), chosen, _measure)
    if format_ == "json":
        print_json([{name: value for name, value in asdict(row).items() if name != "unit"} for row in rows])
    elif format_ == "csv":
        click.echo(to_csv([asdict(row) for row in rows], COLUMNS), nl=False)
    elif rows:
        click.echo(table(rows, full_names), nl=False)
    for row in rows:
        if row.cause and format_ == "table":
            click.echo(f"llmbx: {row.experiment}: {row.cause}", err=True)
    if not any(row.valid for row in rows):
        what = f"none of {len(rows)} logs holds a valid measurement" if rows else "no training log found"
        click.echo(f"llmbx: {what} in {', '.join(str(path) for path in paths or (DEFAULT,))}", err=True)
        click.get_current_context().exit(1)


def _measure(spec: RunSpec, steps: Sequence[Step], policy: str | None) -> Figures:
    from ..measure import measure
    from ..plugins import load

    plugins = load()
    known = spec.plugin in plugins.frameworks()
    return measure(spec, steps, plugins.framework(spec.plugin).compute_flops(spec) if known else None, policy)
