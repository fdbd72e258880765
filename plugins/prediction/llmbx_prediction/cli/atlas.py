"""List published figures near a configuration, and where a run stands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import UsageError, plural
from llmbx.api.verbs import (
    RUN_ARGUMENT,
    WORKLOAD_ARGUMENT,
    OutputPath,
    format_option,
    load_workspace,
    print_json,
    print_note,
    print_rows,
)

if TYPE_CHECKING:
    from llmbx.api.verbs import Workspace

    from ..atlas.listing import Listing
    from ..atlas.row import Row

COLUMNS = ("model", "gpu_type", "gpus", "dtype", "gbs", "seq", "layout", "step_time_s", "tokens_per_s_per_gpu",
           "tflops_per_gpu", "printed_tflops", "organization", "release", "differs_in")  # fmt: skip
OPTIONAL = ("printed_tflops", "seq", "organization", "differs_in", "gbs", "dtype", "gpu_type")
CSV_COLUMNS = (
    "model", "layers", "task", "gpu_type", "gpus", "dtype", "gbs", "mbs", "seq", "tp", "pp", "cp", "ep", "etp", "vp",
    "fsdp", "token_drop", "recompute", "step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "flops_convention",
    "printed_tflops", "printed_convention", "memory_gb", "minutes", "runs", "organization", "stack", "release",
    "source", "place", "assumed", "note", "distance", "differs_in",
)  # fmt: skip
MODELS = ("model", "rows", "gpu_types", "gpus", "organizations", "releases", "sources")
SPREADS = ("source", "model", "task", "gpu_type", "gpus", "gbs", "organizations", "systems", "fastest_s", "median_s",
           "slowest_s", "above_fastest_percent", "slowest_above_fastest_percent")  # fmt: skip

SPREADS_OPTIONAL = ("above_fastest_percent", "systems", "task", "median_s", "gbs")


class _Group(click.Group):
    """A group whose first word may be a workload: it is then `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group("atlas", cls=_Group)
def command() -> None:
    """List published figures near a configuration, and where a run stands among them.

    `llmbx atlas WORKLOAD` is short for `llmbx atlas show WORKLOAD`; without WORKLOAD it lists the models of the table.
    """


@command.command("show")
@click.argument("names", nargs=-1, metavar="[PLUGIN] [WORKLOAD] [SIZE]", type=WORKLOAD_ARGUMENT)
@click.option("-s", "--size", help="Model size of a workload of the catalog.")
@click.option("--gpu-type", help="Only this GPU type.")
@click.option("--gpus", type=click.IntRange(min=1), metavar="N", help="Number of GPUs: rows near it come first.")
@click.option("--dtype", help="Only this dtype: bf16, fp8, mxfp8, nvfp4.")
@click.option("--release", help="Only this release, for example 26.04.")
@click.option("--task", type=click.Choice(("pretrain", "sft", "lora")), help="Only this task.  [default: all]")
@click.option("--near", type=click.IntRange(min=0), default=5, show_default=True, metavar="N",
              help="Also list the N nearest configurations of other models.")  # fmt: skip
@click.option("--run", "run_name", metavar="RUN", type=RUN_ARGUMENT, help="Show where this run stands.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="TOKENS",
              help="Show where this many tokens/s per GPU stand.")  # fmt: skip
@click.option("--spread", is_flag=True, help="List how far organizations are apart on the same GPUs (MLPerf).")
@click.option("--html", "page", type=OutputPath(), metavar="FILE", help="Draw the figures on an HTML page.")
@format_option()
def show(names: tuple[str, ...], run_name: str | None, rate: float | None, page: Path | None, spread: bool,
         format_: str, near: int, **options: Any) -> None:  # fmt: skip
    """List the published figures for WORKLOAD, nearest first, then those of near configurations of other models.

    WORKLOAD is one of the catalog, or a model of the table (`llmbx atlas` lists them). TFLOP/s are computed from the
    tokens/s by one formula with causal attention; `printed_tflops` is the figure in the source's own convention. Every
    row has its source, release and place (CSV and JSON).

    With --run or --rate the percentile is the share of published tokens/s per GPU that are lower, among rows of the
    same model, GPU type, task and dtype, and the spread of organizations with the same GPUs is listed, if MLPerf has
    it.

    \b
    Examples:
      llmbx atlas
      llmbx atlas llama3.1 --size 405b --gpu-type gb200
      llmbx atlas deepseek-v3 --gpu-type h100 --format json
      llmbx atlas llama3.1 --size 70b --gpu-type h100 --run last
      llmbx atlas --spread
    """
    from ..atlas import table
    from ..atlas.own import rows as own_rows

    workspace = load_workspace()
    rows = (*table.shipped(), *own_rows(workspace.install.path))
    if spread:
        _print_spreads(rows, names, options, workspace, format_)
    elif not names and run_name is None:
        _refuse(rate, page)
        _print_models(rows, format_)
    else:
        _print(_listing(names, options, rows, workspace, near, run_name, rate), format_, page)


def _refuse(rate: float | None, page: Path | None) -> None:
    for option, value in (("--rate", rate), ("--html", page)):
        if value is not None:
            raise UsageError(f"{option} requires a WORKLOAD")


def _listing(names: tuple[str, ...], options: dict[str, Any], rows: Sequence[Row], workspace: Workspace, near: int,
             run_name: str | None, rate: float | None) -> Listing:  # fmt: skip
    from ..atlas import listing
    from ..question import Question

    if run_name is not None and rate is not None:
        raise UsageError("--run cannot be combined with --rate")
    mine = listing.of_run(run_name, workspace) if run_name is not None else None
    if mine is not None and not names:
        names, options = (mine.workload,), {**options, "size": options["size"] or mine.size}
    question = Question(
        names, options["size"], options["dtype"], options["gpu_type"], options["gpus"], options["release"]
    )
    return listing.build(question, rows, workspace, near, options["task"], mine, rate)


def _print(listing: Listing, format_: str, page: Path | None) -> None:
    if page is not None:
        from llmbx.api.verbs import load_plugins

        from ..atlas.chart import section

        load_plugins().write_sections(page, f"Published figures of {listing.model}", (section(listing),))
        click.echo(f"page: {page}", err=True)
    if format_ == "json":
        print_json(listing)
        return
    if format_ == "csv":
        print_rows(listing.rows, CSV_COLUMNS, format_)
    else:
        print_rows(
            listing.rows, COLUMNS, format_, f"no published figure of {listing.model} with these options", OPTIONAL
        )  # fmt: skip
    for line in listing.lines():
        print_note(line)


def _print_models(rows: Sequence[Row], format_: str) -> None:
    from ..atlas.listing import models

    print_rows(models(rows), MODELS, format_)


def _print_spreads(rows: Sequence[Row], names: tuple[str, ...], options: dict[str, Any], workspace: Workspace,
                   format_: str) -> None:  # fmt: skip
    from ..atlas.standing import spreads
    from ..question import Question, model_of

    if names:
        model, _, _ = model_of(Question(names, options["size"]), workspace)
        rows = [row for row in rows if row.model == model.name]
    for field in ("gpu_type", "gpus", "task"):
        if options[field] is not None:
            rows = [row for row in rows if getattr(row, field) == options[field]]
    lines = [{name: getattr(item, name) for name in item.__struct_fields__} for item in spreads(rows)]
    print_rows(lines, SPREADS, format_, "no cell with several organizations", SPREADS_OPTIONAL)


@command.command("add")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="Name of the table.  [default: that of the file]")
def add(file: Path, name: str | None) -> None:
    """Add your own figures (CSV).

    The columns are those of `llmbx atlas WORKLOAD --format csv` that are not computed; model, gpu_type and gpus are
    required, and a figure: step_time_s, tokens_per_s_per_gpu or memory_gb. Predictions are calibrated on the rows with
    dtype, gbs, seq and a step time, too. A table with the same name is replaced.

    \b
    Examples:
      llmbx atlas add our_cluster.csv
      llmbx atlas add runs.csv --name 2026-q3
    """
    from ..atlas import own

    workspace = load_workspace()
    workspace.install.ensure()
    path, count = own.add(workspace.install.path, file, name or file.stem)
    click.echo(f"{plural(count, 'rows')} in {path}")


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove a table that `atlas add` added."""
    from ..atlas import own

    click.echo(f"removed {own.remove(load_workspace().install.path, name)}")
