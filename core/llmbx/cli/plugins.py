"""List the installed plugins."""

from __future__ import annotations

import click

from .output import format_option, print_rows

COLUMNS = ("name", "version", "distribution", "status", "hooks")


@click.command("plugins")
@format_option
def command(format_: str) -> None:
    """List the installed plugins.

    A plugin is a package with an entry point in the group `llmbx`. A broken plugin is listed with its error; the others
    still work. Set LLMBX_TRACE_HOOKS=1 to make any command print every hook call.
    """
    from ..plugins.manager import load

    plugins = load()
    plugins.ask_all()
    rows = [
        {
            "name": info.name,
            "version": info.version,
            "distribution": info.distribution,
            "module": info.module,
            "status": f"broken: {info.error}" if info.error else info.warning or "ok",
            "hooks": list(info.hooks),
        }
        for info in plugins.infos
    ]
    print_rows(rows, COLUMNS, format_, empty="no plugin found")
