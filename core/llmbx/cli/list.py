"""List the workloads that can be run."""

from __future__ import annotations

import click

from ..errors import UsageError
from ..model import Workload
from .completion import WORKLOAD
from .output import Row, format_option, print_rows

COLUMNS = ("plugin", "workload", "size", "dtypes", "gpu_types", "gpus")


@click.command("list")
@click.option("--plugin", metavar="NAME|PATH", help="Only this plugin's workloads.")
@click.option("--here", is_flag=True, help="Only what fits this machine or the cluster, with memory and time.")
@click.option("--cluster", metavar="NAME", help="With --here: the cluster profile in llmbx.toml.")
@click.argument("workload", required=False, type=WORKLOAD)
@format_option()
def command(plugin: str | None, here: bool, cluster: str | None, workload: str | None, format_: str) -> None:
    """List the workloads that can be run.

    There is one row per size. With WORKLOAD (a name or alias), only its sizes are listed. `llmbx show` prints the
    resolved configuration of one run.

    --here lists what the GPUs of this machine can run, or those of the cluster profile: each size with the number of
    GPUs, and, where they are known, the memory of a GPU and the time of 50 steps, from the newest run of this install
    or the published figure, else predicted. What cannot fit the memory by its prediction is left out.

    \b
    Examples:
      llmbx list
      llmbx list llama3.1
      llmbx list --here
      llmbx list --plugin nemo --format json
    """
    from ..plugins.local_sources import is_path
    from ..plugins.manager import load

    plugins = load()
    if plugin and is_path(plugin):
        plugin = plugins.framework_at(plugin)
    elif plugin:
        plugins.framework(plugin)
    chosen = (
        [plugins.workload(workload, plugin)]
        if workload
        else [w for w in plugins.workloads if plugin in (None, w.plugin)]
    )
    chosen.sort(key=lambda w: (w.plugin, w.name))
    if here:
        _print_here(chosen, cluster, format_)
        return
    if cluster is not None:
        raise UsageError("--cluster needs --here")
    rows = [row for w in chosen for row in _rows(w)]
    print_rows(rows, COLUMNS, format_, empty="no plugin provides a workload")


def _print_here(chosen: list[Workload], cluster: str | None, format_: str) -> None:
    from ..catalog import hardware
    from ..config.profiles import choose_profile
    from .here import COLUMNS, machine, measurements, predictions, rows
    from .workspace import load_workspace

    workspace = load_workspace()
    profile = choose_profile(workspace.config, workspace.cluster_files, cluster)
    gpu_type, origin = (profile.cluster.gpu_type, profile.origin) if profile else (None, "")
    if profile is not None and gpu_type is None:
        raise UsageError(f"{origin} has no gpu_type: set it there")
    found = machine(gpu_type, origin, hardware.extend(workspace.config.gpus))
    what = f"{found.gpus} x {found.gpu_type}" if found.gpus and found.gpu_type != "cpu" else found.gpu_type
    click.echo(f"llmbx: {what}: {found.where}", err=True)
    known = measurements(workspace.install, lambda: workspace.plugins)
    listed = rows(chosen, found, known, predictions(workspace))
    print_rows(listed, COLUMNS, format_, empty=f"no workload has a recipe for {found.gpu_type}")


def _rows(workload: Workload) -> list[Row]:
    rows: list[Row] = []
    for size in workload.sizes:
        found = [row for recipe in workload.recipes for row in recipe.rows if row.size == size]
        rows.append(
            {
                "plugin": workload.plugin,
                "workload": workload.name,
                "size": size,
                "dtypes": [*dict.fromkeys(item for row in found for item in row.dtypes)],
                "gpu_types": [*dict.fromkeys(item for row in found for item in row.gpu_types)],
                "gpus": _span([item for row in found for item in row.gpus]),
                "aliases": list(workload.aliases),
                "recipes": [recipe.name for recipe in workload.recipes if any(r.size == size for r in recipe.rows)],
                "folder": workload.folder,
            }
        )
    return rows


def _span(texts: list[str]) -> str:
    numbers = sorted({int(part) for text in texts for part in text.split("-") if part.isdigit()})
    if not numbers:
        return "any"
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
