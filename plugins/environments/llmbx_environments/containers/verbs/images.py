"""`llmbx image list`, `verify` and `prune`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llmbx.api import InfraError, format_bytes
from llmbx.api.verbs import NumberAbove, format_option, load_workspace, print_rows

from .common import container_settings, report

if TYPE_CHECKING:
    from ..images.inventory import Entry

COLUMNS = ("name", "reference", "kind", "size", "digest", "imported", "state")


@click.command("list")
@format_option()
def list_(format_: str) -> None:
    """List the images of this install and their state."""
    from ..images.inventory import entries, with_origin

    install = load_workspace().install.path
    rows = [_row(with_origin(entry), format_) for entry in entries(install)]
    print_rows(rows, COLUMNS, format_, empty="no images")


@click.command("verify")
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option(
    "--offline", is_flag=True, help="Do not check in the registries whether tags were re-pushed."
)
@format_option()
def verify(names: tuple[str, ...], offline: bool, format_: str) -> None:
    """Verify images: completeness, checksum, and whether their tag was re-pushed.

    All files are read completely. Exits with code 4 if an image fails.
    """
    from ..images.inventory import select, verified

    workspace = load_workspace()
    install = workspace.install.path
    registries = None if offline else container_settings(workspace)
    checked = [verified(entry, install, report, registries) for entry in select(install, names)]
    print_rows([_row(entry, format_) for entry in checked], COLUMNS, format_)
    if not all(entry.state.startswith("ok") for entry in checked):
        sys.exit(InfraError.exit_code)


@click.command("prune")
@click.argument("names", nargs=-1, metavar="[IMAGE]...")
@click.option(
    "--older-than",
    "days",
    type=NumberAbove(0, or_equal=True),
    metavar="DAYS",
    help="Also delete image files older than DAYS.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
def prune(names: tuple[str, ...], days: float | None, dry_run: bool) -> None:
    """Delete leftovers of killed imports, corrupt image files, and the named images.

    The digests stay in `images.lock`, so an image that is imported again must have the same digest.

    \b
    Examples:
      llmbx image prune --dry-run
      llmbx image prune --older-than 90
      llmbx image prune nvidia+nemo+25.04.01.sqsh
    """
    from ...leftovers import leftovers
    from ..images.inventory import delete_leftovers, remove

    install = load_workspace().install.path
    chosen = _to_delete(install, names, days)
    for path in leftovers(install / "images"):
        click.echo(f"leftover {path.name}")
    for entry in chosen:
        click.echo(f"{entry.name} ({entry.state})")
    if dry_run:
        return
    freed = delete_leftovers(install) + sum(remove(entry, install) for entry in chosen)
    report(f"{format_bytes(freed)} freed")


def _to_delete(install: Path, names: tuple[str, ...], days: float | None) -> list[Entry]:
    """The named images, those of the install that are too old, and corrupt ones."""
    from ..images.inventory import entries, older_than, select

    images, folder = entries(install), install / "images"
    chosen = select(install, names) if names else []
    if days is not None:
        inside = [entry for entry in images if Path(entry.path or "").parent == folder]
        chosen += older_than(inside, days)
    chosen += [entry for entry in images if entry.state.startswith("corrupt")]
    return list({entry.path or entry.name: entry for entry in chosen}.values())


def _row(entry: Entry, format_: str) -> dict[str, object]:
    row = {name: getattr(entry, name) for name in (*COLUMNS, "path")}
    if format_ == "table":
        row["name"] = entry.label
        row["size"] = None if entry.size is None else format_bytes(entry.size)
        row["digest"] = entry.digest[:19] if entry.digest else None
    return row
