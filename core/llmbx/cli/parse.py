"""Read training logs, of llmbx or of its predecessor, and print step time and TFLOP/s."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from ..model import Step
from .output import format_option, print_json, to_csv

if TYPE_CHECKING:
    from ..logs.find import LogFile
    from ..measure.figures import Figures
    from ..record.folder import Run

DEFAULT = Path("experiments")


@click.command("parse")
@click.argument("paths", metavar="[PATH|RUN]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--window", metavar="A-B|last|auto", help="Steps to measure, in the log's numbers, both ends counted.")
@click.option("--save", is_flag=True, help="Keep the figures of --window as the result of the runs.")
@click.option("--full-names", is_flag=True, help="Show the logs' paths instead of the experiments' names.")
@format_option
def command(paths: tuple[Path, ...], window: str | None, save: bool, full_names: bool, format_: str) -> None:
    """Print mean and sample standard deviation of step time and TFLOP/s for each training log.

    A PATH is a log, or a folder to search; without one ./experiments is read. The format is found by itself. A RUN is
    a run of this install by its id, the beginning of it, its job id, `last` or tag:NAME. The window is that of the
    log's recipe unless --window says otherwise: iterations 35-44 or 11-44, or the last step; for a run of llmbx it is
    the one that the run was started with. The steady state (window auto) is shown beside it. A log that does not reach
    its window is `Failed (N iterations)`. Traces, analyses of profiles and the output of job scripts are left out.

    A run of llmbx is measured anew from its steps.jsonl; its result stays as it is unless --save is given.

    Exit code 1 when no log holds a valid measurement.

    \b
    Examples:
      llmbx parse
      llmbx parse experiments/pretrain_grok1_314b_bf16_256 --window last
      llmbx parse log-pretrain_llama3.1.out --window auto --format json
      llmbx parse last --window 20-44 --save
    """
    from ..errors import UsageError
    from ..logs.find import find_logs
    from ..measure.window import check
    from ..plugins.manager import load
    from .parse_rows import COLUMNS, parse_logs, table

    if not paths and not DEFAULT.is_dir():
        raise UsageError("there is no ./experiments here; name a log or a folder: llmbx parse PATH")
    chosen = check(window) if window is not None else None
    logs = find_logs([_found(path) for path in paths] or (DEFAULT,))
    rows = parse_logs(logs, load().log_formats(), chosen, _measure, intervals=format_ == "json")
    if save:
        _save(logs, chosen)
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


def _found(path: Path) -> Path:
    """The path itself, or the folder of the run that is meant by an id, a job id, `last` or tag:NAME."""
    if path.exists() or len(path.parts) > 1:
        return path
    from ..errors import UsageError
    from ..history import find_run
    from .options import place

    install, _ = place()
    try:
        return find_run(install, str(path)).path
    except UsageError as error:
        raise UsageError(f"{path}: no such file or folder, and {error}") from None


def _save(logs: Sequence[LogFile], window: str | None) -> None:
    """Put the figures of another window in the place of the runs' results."""
    from ..errors import UsageError
    from ..history.remeasure import save_window
    from ..plugins.manager import load
    from ..record.folder import read_result, read_run

    if window is None:
        raise UsageError("--save keeps the figures of another window: say which with --window")
    runs = []
    for log in logs:
        result = read_result(Path(log.run_dir)) if log.run_dir else None
        if result is None or log.run_dir is None:
            raise UsageError(f"--save: {log.path} is not the log of an ended run of llmbx")
        runs.append((read_run(Path(log.run_dir)), result))
    for run, result in runs:
        save_window(run, result, load(), window)
        click.echo(f"llmbx: saved in {run.path / 'result.json'}", err=True)


def _measure(run: Run, steps: Sequence[Step], policy: str | None) -> Figures:
    from ..history.remeasure import figures
    from ..plugins.manager import load

    return figures(run, steps, load(), policy)
