"""Tables for people, JSON and CSV for programs: the one way that every verb prints rows."""

from __future__ import annotations

import csv
import io
import shutil
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
        sys.stdout.write(to_csv(rows, columns))
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
    """Print `rows` as a plain table; cells are folded only where the terminal is narrower than the table."""
    texts = [[cell(row.get(column)) for column in columns] for row in rows]
    right = [all(isinstance(row.get(column), (int, float, type(None))) for row in rows) for column in columns]
    heads = [column if "." in column else column.replace("_", " ") for column in columns]
    widths = [max(map(len, items)) for items in zip(heads, *texts, strict=True)]
    if sys.stdout.isatty() and sum(widths) + 2 * len(widths) > shutil.get_terminal_size().columns:
        _print_folded(heads, texts, right)
        return
    for line in (heads, *texts):
        padded = [f"{text:>{w}}" if r else f"{text:<{w}}" for text, w, r in zip(line, widths, right, strict=True)]
        click.echo("  ".join(padded).rstrip())


def _print_folded(heads: list[str], texts: list[list[str]], right: list[bool]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head, to_the_right in zip(heads, right, strict=True):
        table.add_column(head, justify="right" if to_the_right else "left", overflow="fold")
    for line in texts:
        table.add_row(*map(Text, line))
    Console().print(table)


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
