"""Recompute published figures and list those that differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llmbx.api import is_number, plural
from llmbx.api.verbs import format_option, print_json, print_rows

if TYPE_CHECKING:
    from ..audit import Audit

COLUMNS = ("kind", "source", "workload", "recipe", "size", "dtype", "gpu_type", "gpus", "field", "published",
           "recomputed", "difference_percent", "reason", "text")  # fmt: skip


@click.command("audit")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-w", "--workload", help="Audit only this workload. With FILE: the workload of the file.")
@click.option("--plugin", help="Audit only the workloads of this plugin.")
@click.option("--tolerance", default="0.6%", show_default=True, help="Allowed relative difference.")
@format_option()
def command(
    file: Path | None, workload: str | None, plugin: str | None, tolerance: str, format_: str
) -> None:  # fmt: skip
    """Recompute published figures and list those that differ.

    Every cell of every published table (tokens/s, MFU, days for 1T tokens) is recomputed from its step time, the batch
    size, sequence length, FLOPs formula and attention convention of the recipe, and the stated peak. Configuration rows
    (DP, GA, split of layers) and worked examples are checked as well. The column `reason` has what the reference file
    or the catalog says about a wrong value.

    FILE is a TOML file of published figures in the format of the plugins' reference files.

    \b
    Examples:
      llmbx audit
      llmbx audit -w llama3.1 --tolerance 1%
      llmbx audit my_cluster.toml --workload grok1 --format json
    """
    from llmbx.api.verbs import load_config, parse_fraction
    from llmbx.api.verbs import load_plugins as load

    from ..audit import audit_file, audit_workloads

    allowed = parse_fraction(tolerance, "--tolerance")
    plugins, (config, _) = load(), load_config()
    if file is not None:
        outcomes = audit_file(
            file, plugins, config, workload, allowed, lambda line: click.echo(f"llmbx: {line}", err=True)
        )
    else:
        chosen = [plugins.workload(workload, plugin)] if workload else plugins.workloads
        if plugin:
            plugins.framework(plugin)
            chosen = [w for w in chosen if w.plugin == plugin]
        outcomes = audit_workloads(chosen, plugins, config, allowed)
    _print(outcomes, format_)


def _print(found: Audit, format_: str) -> None:
    if format_ == "json":
        print_json(found)
    elif format_ == "csv":
        print_rows(lines(found), COLUMNS, format_)
    else:
        _tables(found)
        parts = ((found.disputed, "cells"), (found.rows, "configuration rows"), (found.examples, "worked examples"))
        disputed = ", ".join(plural(len(items), things) for items, things in parts)
        click.echo(f"{found.cells} cells recomputed; disputed: {disputed}", err=True)


def lines(found: Audit) -> list[dict[str, Any]]:
    """All disputed figures as flat rows: cells, then configuration rows, then worked examples."""
    from msgspec.structs import asdict

    return [
        *({"kind": "cell", **asdict(item)} for item in found.disputed),
        *({"kind": "row", **asdict(item)} for item in found.rows),
        *({**asdict(item), "kind": f"example, {item.kind}"} for item in found.examples),
    ]


def _tables(found: Audit) -> None:
    """Print the disputed figures as tables."""
    sections = (("Cells", found.disputed), ("Configuration rows", found.rows), ("Worked examples", found.examples))
    empty = True
    for title, items in sections:
        rows = [_short(item) for item in items]
        if rows:
            click.echo(("" if empty else "\n") + title)
            print_rows(rows, tuple(rows[0]), "table")
            empty = False


def _short(item: Any) -> dict[str, Any]:
    from ..audit import ExampleDispute

    run = " ".join(str(part) for part in (item.workload, item.size, item.dtype, item.gpu_type, item.gpus) if part)
    difference = getattr(item, "difference_percent", None)
    return {
        "run": run,
        **({"kind": item.kind} if isinstance(item, ExampleDispute) else {}),
        "field": item.field,
        "published": _figure(item.field, item.published),
        "recomputed": _figure(item.field, item.recomputed),
        "difference": "-" if difference is None else _percent(difference),
        "reason": item.reason,
        "source": f"{item.source}: {item.text}" if getattr(item, "text", None) else item.source,
    }


def _figure(field: str, value: Any) -> str:
    """Format a figure for the table: MFU in percent, large numbers without decimals."""
    if not is_number(value):
        return "-" if value is None else str(value) if not isinstance(value, bool) else "yes" if value else "no"
    if field == "mfu":
        return f"{100 * value:.2f} %"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e16 else f"{value:.6g}"


def _percent(difference: float) -> str:
    return f"{difference:+.1f} %" if abs(difference) >= 0.05 else f"{difference:+.1g} %"
