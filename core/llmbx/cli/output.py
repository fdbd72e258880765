"""Tables for people, JSON and CSV for programs: the one way that every verb prints rows."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, Any]

FORMATS = ("table", "json", "csv")


def format_option(function: F) -> F:
    """The option `--format table|json|csv` of every verb that prints a table."""
    return click.option(
        "--format", "format_", type=click.Choice(FORMATS), default="table", show_default=True, help="How to print."
    )(function)


def print_rows(rows: Sequence[Row], columns: Sequence[str], format_: str, empty: str = "nothing") -> None:
    """Print `rows` with these columns. JSON keeps every member of a row; an empty table says `empty` on stderr."""
    if format_ == "json":
        print_json(list(rows))
    elif format_ == "csv":
        click.echo(to_csv(rows, columns), nl=False)
    elif rows:
        print_table(rows, columns)
    else:
        click.echo(empty, err=True)


def print_json(value: Any) -> None:
    """Print `value` as indented JSON; NaN and infinity become null."""
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def to_csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """`rows` as CSV with a header; an unknown value is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if row.get(c) is None else row.get(c) for c in columns] for row in rows])
    return text.getvalue()


def print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print `rows` as a plain table: as wide as the terminal, or as wide as its content through a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        numbers = all(isinstance(row.get(column), (int, float, type(None))) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text(cell(row.get(column))) for column in columns])
    console = Console() if sys.stdout.isatty() else Console(width=10_000, no_color=True)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def cell(value: Any) -> str:
    """One value for a table: `-` where it is unknown, four significant digits for a fraction."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    return str(value)
