"""Print step time and TFLOP/s of training logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmbx.api.verbs import format_option

if TYPE_CHECKING:
    from llmbx.api.verbs import LogReading

    from .parsed_log import ParsedLog
    from .rows import Row
    from .table import Table

DEFAULT = Path("experiments")


@click.command("parse")
@click.argument("paths", metavar="[PATH|RUN]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--window",
    metavar="A-B|last|auto",
    help="Steps to measure; A-B is inclusive, in the log's step numbers.",
)
@click.option(
    "--log-format",
    metavar="NAME",
    help="Format that reads the files, for files of records such as JSON lines.  "
    "[default: detected]",
)
@click.option(
    "--gpu-type",
    metavar="NAME",
    help="GPU type of a log without a run: h100, gb200 … For the MFU.",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of GPUs of a log without a run.",
)
@click.option(
    "--dtype",
    metavar="NAME",
    help="Data type of the peak for --gpu-type.  [default: bf16]",
)
@click.option(
    "--save",
    is_flag=True,
    help="Store the measurement over --window as the result of the runs.",
)
@click.option(
    "--full-names",
    is_flag=True,
    help="Show paths of logs instead of names of experiments.",
)
@format_option()
def command(
    paths: tuple[Path, ...],
    window: str | None,
    log_format: str | None,
    gpu_type: str | None,
    gpus: int | None,
    dtype: str | None,
    save: bool,
    full_names: bool,
    format_: str,
) -> None:
    """Print mean and sample standard deviation of step time and TFLOP/s for each training log.

    PATH is a log, a pipe (- for standard input), or a folder to search; the default is
    ./experiments. The log format is detected automatically. RUN is a run of this install: its id, a
    unique prefix of it, its job id, `last` or @TAG. Traces, analyses of profiles and the output of
    job scripts are ignored.

    A FILE of records (JSON lines, a TensorBoard event file, a file of an offline W&B run) is read
    by the format that declares such files, or by --log-format.

    The default window is that of the log's recipe (iterations 35-44 or 11-44, or the last step),
    for a run of llmbx the one it was started with. The steady state (window auto) is shown in a
    second table. A log that ends before its window is `Failed (N iterations)`, one that ends with a
    failure `Failed (ended with step N)` or, if its measured data is complete, `Failed (after its
    last step)`, that of a run that has not ended `Running (N iterations)`. The last column says
    whether the mean of the window represents its steps (docs/stability.md). The checks of a run
    (docs/checks.md) are made of every log; those that compare it with what was asked for need a run
    of llmbx.

    --gpu-type gives the MFU of a log that no run of llmbx wrote: its TFLOP/s per GPU over the peak
    of this GPU type. --gpus gives the tokens per second of all GPUs.

    Runs of llmbx are measured again from their steps.jsonl; their stored results change only with
    --save.

    The exit code is 1 if no log contains a valid measurement.

    \b
    Examples:
      llmbx parse
      llmbx parse experiments/pretrain_grok1_314b_bf16_256 --window last
      llmbx parse log-pretrain_llama3.1.out --window auto --format json
      llmbx parse last --window 20-44 --save
      llmbx parse train.log --gpu-type h100 --gpus 64
    """
    from llmbx.api import UsageError
    from llmbx.api.verbs import check_window, path_or_run

    from .machine import machine_of
    from .rows import row_of

    if not paths and not DEFAULT.is_dir():
        raise UsageError(
            "no folder ./experiments here; specify a log or a folder: llmbx parse PATH"
        )
    policy = check_window(window) if window is not None else None
    places = [path_or_run(path) for path in paths] or [DEFAULT]
    machine = machine_of(gpu_type, gpus, dtype)
    rows, readings = [], []
    for log in _read(places, log_format):
        rows.append(row_of(log, policy, format_ == "json", machine))
        readings += [log.reading] if save else []
    if save:
        _save(readings, policy)
    _print(rows, format_, full_names)
    if not any(row.valid for row in rows):
        _exit_without_measurement(rows, paths or (DEFAULT,))


def _read(places: Sequence[Path], log_format: str | None) -> Iterator[ParsedLog]:
    """Yield the training logs at these places, each when it has been read."""
    from llmbx.api.verbs import load_plugins

    from .find import find_logs
    from .formats import with_formats
    from .parsed_log import parse_file

    plugins = load_plugins()
    formats = plugins.log_formats()
    files = with_formats(find_logs(places), formats, plugins, log_format)
    for file in files:
        log = parse_file(file, formats, plugins)
        if log is not None:
            yield log


def _exit_without_measurement(rows: Sequence[Row], paths: Sequence[Path]) -> None:
    if rows:
        problem = f"none of {len(rows)} logs contains a valid measurement"
    else:
        problem = "no training log found"
    click.echo(f"llmbx: {problem} in {', '.join(map(str, paths))}", err=True)
    click.get_current_context().exit(1)


def _print(rows: Sequence[Row], format_: str, full_names: bool) -> None:
    """Print the rows; below a table, the causes and warnings on stderr."""
    from llmbx.api.verbs import print_json, print_note, to_csv

    from .table import as_csv, as_json, columns, tables

    if format_ == "json":
        print_json([as_json(row) for row in rows])
    elif format_ == "csv":
        click.echo(to_csv([as_csv(row) for row in rows], columns(rows)), nl=False)
    else:
        for number, part in enumerate(tables(rows, full_names)):
            _print_table(part, first=number == 0)
    if format_ != "table":
        return
    for row in rows:
        for line in (row.cause, row.unread, *row.warnings):
            if line:
                print_note(f"llmbx: {row.experiment}: {line}")


def _print_table(part: Table, first: bool) -> None:
    """Print a table as the recipes' scripts do, in narrower columns if a terminal has no room."""
    import shutil
    import sys

    from llmbx.api.verbs import print_rows

    from .table import RULE

    if not first:
        click.echo()
    if not sys.stdout.isatty() or part.width <= shutil.get_terminal_size().columns:
        click.echo(part.text, nl=False)
        return
    click.echo(f"{part.title}\n{RULE}")
    print_rows(part.rows, part.heads, "table")
    for note in part.notes:
        click.echo(note)


def _save(readings: Sequence[LogReading], window: str | None) -> None:
    """Store the measurement over another window as the result of each run.

    Raises `UsageError` if one of the logs is not that of a run that has ended.
    """
    from llmbx.api import UsageError

    if window is None:
        raise UsageError("--save requires --window")
    for reading in readings:
        if reading.result is None:
            raise UsageError(f"--save: {reading.file} is not the log of a finished run of llmbx")
    for reading in readings:
        click.echo(f"llmbx: saved in {reading.save(window)}", err=True)
