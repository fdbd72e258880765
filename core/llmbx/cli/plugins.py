"""List the plugins; create, check and enable plugins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..phrases import did_you_mean
from .main import Verbs
from .output import Row, format_option, print_rows

if TYPE_CHECKING:
    from ..plugins.discovery import PluginInfo
    from ..plugins.manager import Plugins

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
    from ..plugins.manager import load

    plugins = load()
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
    from ..plugins.local_sources import enabled, enabled_file, find, full_path

    full = full_path(path)
    names = ", ".join(point.name for point in find(Path(full)))
    file, paths = enabled_file(os.environ), enabled(os.environ)
    if full not in paths:
        _write(file, [*paths, full])
    click.echo(f"enabled {names} ({full}) in {file}")


@command.command("disable")
@click.argument("path", type=click.Path(path_type=Path))
def disable(path: Path) -> None:
    """Stop using a plugin that was enabled. PATH is that of `llmbx plugins enable`."""
    from ..plugins.local_sources import enabled, enabled_file, full_path

    full, paths = full_path(path), enabled(os.environ)
    if full not in paths:
        raise UsageError(f"{path} is not enabled{did_you_mean(full, paths)}")
    _write(enabled_file(os.environ), [kept for kept in paths if kept != full])
    click.echo(f"disabled {full}")


def _write(file: Path, paths: list[str]) -> None:
    from ..files import disk_errors, write_atomic

    with disk_errors(str(file)):
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_atomic(file, "".join(f"{path}\n" for path in paths).encode(), mode=0o644)
