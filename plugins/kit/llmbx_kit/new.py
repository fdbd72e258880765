"""Create the package of a new plugin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from .template import Kind

F = TypeVar("F", bound=Callable[..., Any])


def _kind_option(kind: str, text: str) -> Callable[[F], F]:
    return click.option(f"--{kind}", "kind", flag_value=kind, default=None, help=text)


@click.command("new")
@click.argument("name")
@_kind_option("framework", "Workloads with a trainer, a log parser and FLOPs (the default).")
@_kind_option("profiler", "A program before the command of every rank.")
@_kind_option("runtime", "A way to give a program its libraries.")
@_kind_option("launcher", "A way to start the ranks.")
@_kind_option("verb", "A command, and a check of results.")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Folder to create.  [default: NAME]"
)
def command(name: str, kind: Kind | None, folder: Path | None) -> None:
    """Create the package of a new plugin.

    The package installs, its tests pass, and the mini of a framework trains on a CPU in a minute.

    \b
    Examples:
      llmbx plugins new my_lm
      llmbx run my_lm --plugin ./my_lm
      llmbx plugins check ./my_lm
    """
    from llmbx.api.verbs import load_plugins

    from . import template

    template.check_name(name, tuple(info.name for info in load_plugins().infos))
    target = folder or Path(name)
    for path in template.write(target, name, kind or "framework"):
        click.echo(path)
    click.echo(f"next: llmbx plugins check {target}", err=True)
