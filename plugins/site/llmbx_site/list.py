"""List the workloads that can be run."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import click

from llmbx.api import UsageError, Workload
from llmbx.api.verbs import WORKLOAD_ARGUMENT, Extension, format_option, load_plugins, print_rows

COLUMNS = ("plugin", "workload", "size", "dtypes", "gpu_types", "gpus")


@dataclasses.dataclass(frozen=True)
class ListCall:
    """What `llmbx list` was asked for: the plugin and the workload, if named, and the format."""

    plugin: str | None
    workload: str | None
    format: str

    @property
    def workloads(self) -> Sequence[Workload]:
        """The chosen workloads in their order."""
        return _chosen(self.plugin, self.workload)


@click.command("list", cls=Extension.Verb)
@click.option("--plugin", metavar="NAME|PATH", help="Only this plugin's workloads.")
@click.argument("workload", required=False, type=WORKLOAD_ARGUMENT)
@format_option()
@click.option(
    "--here", is_flag=True, help="Only what fits this machine or the cluster, with memory and time."
)
@click.option("--cluster", metavar="NAME", help="With --here: the cluster profile in llmbx.toml.")
def command(
    plugin: str | None, workload: str | None, format_: str, here: bool, cluster: str | None
) -> None:
    """List the workloads that can be run.

    There is one row per size. With WORKLOAD (a name or alias), only its sizes are listed. `llmbx
    show` prints the resolved configuration of one run.

    --here lists what the GPUs of this machine can run, or those of the cluster profile: each size
    with the number of GPUs, and, where they are known, the memory of a GPU and the time of 50
    steps, from the newest run of this install or the published figure, else predicted. What cannot
    fit the memory by its prediction is left out.

    \b
    Examples:
      llmbx list
      llmbx list llama3.1
      llmbx list --plugin nemo --format json
      llmbx list --here
    """
    if cluster is not None and not here:
        raise UsageError("--cluster needs --here")
    if (code := Extension.Verb.act(ListCall(plugin, workload, format_))) is not None:
        sys.exit(code)
    if here:
        from .here import print_here

        print_here(_chosen(plugin, workload), cluster, format_)
        return
    chosen = _chosen(plugin, workload, listing=True)
    rows = [row for workload_ in chosen for row in _rows(workload_)]
    print_rows(rows, COLUMNS, format_, empty="no plugin provides a workload")
    if format_ == "table":
        _note_history(chosen)


def _chosen(plugin: str | None, name: str | None, listing: bool = False) -> list[Workload]:
    """The workloads of a plugin, or the one with this name; for a `listing` without their rows."""
    plugins = load_plugins()
    plugin = plugins.framework_at(plugin) if plugin else None
    if plugin:
        plugins.framework(plugin)
    if name:
        return [plugins.workload(name, plugin)]
    workloads = plugins.listed if listing else plugins.workloads
    workloads = [workload for workload in workloads if plugin in (None, workload.plugin)]
    return sorted(workloads, key=lambda workload: (workload.plugin, workload.name))


def _note_history(workloads: Sequence[Workload]) -> None:
    """Print the recipes that upstream does not support any more, by reason."""
    import textwrap

    by_reason: dict[str, list[str]] = {}
    for workload in workloads:
        for recipe in (recipe for recipe in workload.recipes if recipe.history):
            by_reason.setdefault(recipe.history, []).append(f"{workload.name} {recipe.name}")
    for reason, names in by_reason.items():
        click.echo(
            textwrap.fill(f"history: {', '.join(names)} ({reason})", 80, subsequent_indent="  ")
        )


def _rows(workload: Workload) -> list[dict[str, Any]]:
    return [_row(workload, size) for size in workload.sizes]


def _row(workload: Workload, size: str) -> dict[str, Any]:
    rows = [row for recipe in workload.recipes for row in recipe.rows if row.size == size]
    recipes = [
        recipe.name for recipe in workload.recipes if any(row.size == size for row in recipe.rows)
    ]
    return {
        "plugin": workload.plugin,
        "workload": workload.name,
        "size": size,
        "dtypes": [*dict.fromkeys(dtype for row in rows for dtype in row.dtypes)],
        "gpu_types": [*dict.fromkeys(gpu_type for row in rows for gpu_type in row.gpu_types)],
        "gpus": _span([text for row in rows for text in row.gpus]),
        "aliases": list(workload.aliases),
        "recipes": recipes,
        "history": [
            recipe.name for recipe in workload.recipes if recipe.name in recipes and recipe.history
        ],
        "folder": workload.folder,
    }


def _span(texts: list[str]) -> str:
    numbers = sorted({int(part) for text in texts for part in text.split("-") if part.isdigit()})
    if not numbers:
        return "any"
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
