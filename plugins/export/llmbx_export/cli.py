"""Export the figures of runs to other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from llmbx.api import UsageError, plural
from llmbx.api.verbs import RUN_ARGUMENT, OutputPath, load_workspace

from .choice import Chosen, Filters, choose


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument RUN and the filters; `_chosen` takes them."""
    for option in (
        click.option("--user", metavar="NAME|all", help="All runs of this user, or of all users."),
        click.option("--tag", "tags", multiple=True, help="All runs with this tag."),
        click.option("--since", metavar="WHEN", help="All runs created since then: 2026-11-20, 7d, 12h."),
        click.option("--where", metavar="CONDITION", help="All runs that match, as in `llmbx jobs`."),
        click.argument("names", nargs=-1, metavar="[RUN]…", type=RUN_ARGUMENT),
    ):
        function = option(function)
    return function


def _chosen(names: tuple[str, ...], **filters: Any) -> list[Chosen]:
    return choose(names, Filters(**filters), load_workspace())


_file = click.option(
    "--output", "path", type=OutputPath(dir_okay=False), metavar="FILE", help="File to write.  [default: stdout]"
)


def _folder(help_: str) -> Callable[..., Any]:
    return click.option("--output", "folder", type=OutputPath(), required=True, metavar="FOLDER", help=help_)


@click.group("export")
def command() -> None:
    """Export the figures of runs to other tools.

    RUN is a short id or a run id, a unique prefix of one, a folder, a job id, @TAG, or "last" (the default). The
    filters export all runs that match instead; the user is you unless --user is set. Unknown values are left out, never
    0. docs/interfaces.md lists the names and units.

    \b
    Examples:
      llmbx export prometheus --tag nightly --output /var/lib/node_exporter/llmbx.prom
      llmbx export csv --where "gpus >= 64" --user all --output runs.csv
      llmbx export mlflow last --output mlruns
    """


@command.command("prometheus")
@_options
@_file
def prometheus(path: Path | None, **asked: Any) -> None:
    """Write a file for the textfile collector of Prometheus' node_exporter.

    The file is replaced in one step. Its name must end with .prom, or the collector does not read it.
    """
    from . import exposition

    if path is not None and path.suffix != ".prom":
        raise UsageError(f"--output {path}: the textfile collector reads only names that end with .prom")
    _write(exposition.prometheus([run.row for run in _chosen(**asked)]), path)


@command.command("openmetrics")
@_options
@_file
def openmetrics(path: Path | None, **asked: Any) -> None:
    """Write the text format of OpenMetrics 1.0."""
    from . import exposition

    _write(exposition.openmetrics([run.row for run in _chosen(**asked)]), path)


@command.command("csv")
@_options
@_file
def csv(path: Path | None, **asked: Any) -> None:
    """Write one row per run with all columns of the history."""
    from . import table

    _write(table.csv([run.row for run in _chosen(**asked)]), path)


@command.command("wandb")
@_options
@_folder("Folder of the run folders: `wandb sync FOLDER/wandb/offline-run-*` uploads them.")
@click.option("--project", default="llmbx", show_default=True, help="Project of the runs.")
def wandb(folder: Path, project: str, **asked: Any) -> None:
    """Write offline runs of Weights & Biases; nothing is uploaded.

    Needs the package wandb in the environment of llmbx: pip install 'llmbx[wandb]'.
    """
    from .wandb import write

    _report(write(_chosen(**asked), folder, project), folder)


@command.command("mlflow")
@_options
@_folder("Folder of the store: `mlflow ui --backend-store-uri FOLDER` shows it.")
@click.option("--experiment", help="Experiment of the runs.  [default: the workload]")
def mlflow(folder: Path, experiment: str | None, **asked: Any) -> None:
    """Write a file store of MLflow. Runs that are there already are written once only.

    Needs the package mlflow in the environment of llmbx: pip install 'llmbx[mlflow]'.
    """
    from .mlflow import write

    _report(write(_chosen(**asked), folder, experiment), folder)


def _write(text: str, path: Path | None) -> None:
    from llmbx.api import write_atomic

    if path is None:
        click.echo(text, nl=False)
    else:
        write_atomic(path, text)
        click.echo(f"wrote {path}", err=True)


def _report(written: int, folder: Path) -> None:
    click.echo(f"{plural(written, 'runs')} written to {folder}", err=True)
