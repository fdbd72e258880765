"""List the plugins; create, check and enable plugins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.api.verbs import Verbs, format_option, load_plugins, print_rows

if TYPE_CHECKING:
    from llmbx.api.contract import PluginInfo
    from llmbx.api.verbs import Plugins

Row = Mapping[str, Any]

TIMES = ("name", "total_ms", "import_ms", "hooks_ms", "slowest_hook")
COLUMNS = ("name", "version", "distribution", "status", "hooks")


@click.group("plugins", cls=Verbs, within="plugins", invoke_without_command=True)
@click.option(
    "--timing",
    is_flag=True,
    help="List how long each plugin takes to be imported and to describe itself.",
)
@format_option()
@click.pass_context
def command(context: click.Context, timing: bool, format_: str) -> None:
    """List the plugins.

    A plugin is a package with an entry point in the group `llmbx`, or a file or project folder
    that was enabled. A broken plugin is listed with its error; the others still work. Set
    LLMBX_TRACE_HOOKS=1 to make any command print every hook call.
    """
    if context.invoked_subcommand is not None:
        return
    plugins = load_plugins()
    plugins.ask_all()
    rows, columns = (_times(plugins), TIMES) if timing else (_listed(plugins), COLUMNS)
    print_rows(rows, columns, format_, empty="no plugin found")


def _listed(plugins: Plugins) -> list[Row]:
    return [
        {
            "name": info.name,
            "version": info.version,
            "distribution": info.distribution,
            "module": info.module,
            "status": f"broken: {info.error}" if info.error else info.warning or "ok",
            "hooks": [*info.hooks, *(f"{hook} (wrapper)" for hook in info.wrappers)],
        }
        for info in plugins.infos
    ]


def _times(plugins: Plugins) -> list[Row]:
    """The time of each plugin, the slowest first."""
    rows = [_time(info, plugins) for info in plugins.infos]
    return sorted(rows, key=lambda row: -row["total_ms"])


def _time(info: PluginInfo, plugins: Plugins) -> Row:
    seconds = {hook: s for (plugin, hook), s in plugins.times.items() if plugin == info.name}
    in_hooks = sum(seconds.values())
    return {
        "name": info.name,
        "total_ms": _ms((info.import_s or 0.0) + in_hooks),
        "import_ms": _ms(info.import_s),
        "hooks_ms": _ms(in_hooks),
        "slowest_hook": max(seconds, key=lambda hook: seconds[hook], default=None),
        "hooks": {hook: _ms(s) for hook, s in seconds.items()},
        "error": info.error,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 1)


@command.command("enable")
@click.argument("path", type=click.Path(path_type=Path))
def enable(path: Path) -> None:
    """Use a plugin that is not installed, in every command.

    PATH is a Python file with hooks, or the folder of a project whose pyproject.toml has
    [project.entry-points.llmbx]. `--plugin PATH` uses it in one command.
    """
    from llmbx.api.contract import PluginInfo

    click.echo(PluginInfo.enable(path))


@command.command("disable")
@click.argument("path", type=click.Path(path_type=Path))
def disable(path: Path) -> None:
    """Stop using a plugin that was enabled. PATH is that of `llmbx plugins enable`."""
    from llmbx.api.contract import PluginInfo

    click.echo(PluginInfo.disable(path))
