"""List the workloads that can be run."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

import click

from ..model import Workload
from .completion import WORKLOAD
from .extensions import Extensible, act
from .output import Row, format_option, print_rows

COLUMNS = ("plugin", "workload", "size", "dtypes", "gpu_types", "gpus")


@dataclasses.dataclass(frozen=True)
class ListCall:
    """What `llmbx list` was asked for: the plugin and the workload, if they were named, and the output format."""

    plugin: str | None
    workload: str | None
    format: str

    @property
    def workloads(self) -> Sequence[Workload]:
        """The chosen workloads in their order."""
        return _chosen(self.plugin, self.workload)


@click.command("list", cls=Extensible)
@click.option("--plugin", metavar="NAME|PATH", help="Only this plugin's workloads.")
@click.argument("workload", required=False, type=WORKLOAD)
@format_option()
def command(plugin: str | None, workload: str | None, format_: str) -> None:
    """List the workloads that can be run.

    There is one row per size. With WORKLOAD (a name or alias), only its sizes are listed. `llmbx show` prints the
    resolved configuration of one run.

    \b
    Examples:
      llmbx list
      llmbx list llama3.1
      llmbx list --plugin nemo --format json
    """
    if (code := act(ListCall(plugin, workload, format_))) is not None:
        sys.exit(code)
    chosen = _chosen(plugin, workload, listing=True)
    rows = [row for workload_ in chosen for row in _rows(workload_)]
    print_rows(rows, COLUMNS, format_, empty="no plugin provides a workload")
    if format_ == "table":
        _note_history(chosen)


def _chosen(plugin: str | None, name: str | None, listing: bool = False) -> list[Workload]:
    """The workloads of a plugin, or the one with this name, sorted; for a `listing` without their rows."""
    from ..plugins.local_sources import is_path
    from ..plugins.manager import load

    plugins = load()
    if plugin and is_path(plugin):
        plugin = plugins.framework_at(plugin)
    elif plugin:
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
        click.echo(textwrap.fill(f"history: {', '.join(names)} ({reason})", 80, subsequent_indent="  "))


def _rows(workload: Workload) -> list[Row]:
    return [_row(workload, size) for size in workload.sizes]


def _row(workload: Workload, size: str) -> Row:
    rows = [row for recipe in workload.recipes for row in recipe.rows if row.size == size]
    recipes = [recipe.name for recipe in workload.recipes if any(row.size == size for row in recipe.rows)]
    return {
        "plugin": workload.plugin,
        "workload": workload.name,
        "size": size,
        "dtypes": [*dict.fromkeys(dtype for row in rows for dtype in row.dtypes)],
        "gpu_types": [*dict.fromkeys(gpu_type for row in rows for gpu_type in row.gpu_types)],
        "gpus": _span([text for row in rows for text in row.gpus]),
        "aliases": list(workload.aliases),
        "recipes": recipes,
        "history": [recipe.name for recipe in workload.recipes if recipe.name in recipes and recipe.history],
        "folder": workload.folder,
    }


def _span(texts: list[str]) -> str:
    numbers = sorted({int(part) for text in texts for part in text.split("-") if part.isdigit()})
    if not numbers:
        return "any"
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
