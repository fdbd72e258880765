"""Print rows as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from ..errors import UsageError
from ..plugins.entry_points import points
from . import table
from .streams import control as control
from .streams import visible, visible_json

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, Any]

FORMATS = ("table", "json", "csv")
CASE_FORMATS = "llmbx.formats"
"""The entry points of formats of test cases (see `cases`)."""

WIDTH = 80
"""Columns of the lines of notes."""


class OutputPath(click.Path):
    """An output file or folder. Rejects the empty string, which would be the current folder."""

    def __init__(self, dir_okay: bool = True) -> None:
        super().__init__(dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            raise UsageError(f"{param.opts[0] if param else 'path'} '': expected a path")
        return super().convert(value, param, ctx)


def format_option(*more: str, cases: bool = False) -> Callable[[F], F]:
    """The option `--format table|json|csv` of every verb that prints a table; `more` are the verb's other formats.

    With `cases` it also has the formats of plugins for test cases, which `print_cases` prints.
    """
    if cases:
        more = (*more, *case_formats())
    formats = click.Choice((*FORMATS, *more))
    return click.option("--format", "format_", type=formats, default="table", show_default=True, help="Output format.")


def case_formats() -> tuple[str, ...]:
    """The names of the formats of cases. Nothing of the plugins is imported."""
    return tuple(dict.fromkeys(point.name for point in points(CASE_FORMATS)))


def print_rows(
    rows: Sequence[Row], columns: Sequence[str], format_: str, empty: str = "nothing", optional: Sequence[str] = ()
) -> None:
    """Print `rows` with these columns. JSON has every member of a row; for an empty table `empty` goes to stderr.

    If the terminal is too narrow for a table, its texts are wrapped, and the first of the `optional` columns are left
    out, which a line on stderr names. Through a pipe nothing is wrapped: what reads it needs whole words.
    """
    if format_ == "json":
        print_json(list(rows))
    elif format_ == "csv":
        sys.stdout.write(to_csv(rows, columns))
    elif rows:
        _print_table(rows, columns, optional)
    else:
        click.echo(empty, err=True)


def print_note(text: str) -> None:
    """Print a note of one paragraph to stderr in lines of at most 80 columns."""
    import textwrap

    lines = textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    click.echo("\n".join(lines), err=True)


def print_json(value: Any) -> None:
    """Print `value` as indented JSON; NaN and infinity become null."""
    import msgspec

    click.echo(visible_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def to_csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Format `rows` as CSV with a header; None is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[csv_cell(row.get(c)) for c in columns] for row in rows])
    return text.getvalue()


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters with which a spreadsheet takes a cell for a formula (OWASP, "CSV Injection")."""


def csv_cell(value: Any) -> Any:
    """A value for CSV: None is empty, and a text that a spreadsheet would take for a formula begins with `'`."""
    if value is None or isinstance(value, bool | int | float):
        return "" if value is None else value
    text = str(value)
    shown = visible(text)
    return f"'{shown}" if text.startswith(FORMULA) and not _is_number(text) else shown


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text


def heading(text: str, codes: str = "\x1b[1m") -> None:
    """Print a line in bold on a terminal, or in the style of other codes."""
    if not sys.stdout.isatty():
        click.echo(text)
        return
    control(sys.stdout, codes)
    click.echo(text, nl=False)
    control(sys.stdout, "\x1b[0m\n")


def _print_table(rows: Sequence[Row], columns: Sequence[str], optional: Sequence[str]) -> None:
    whole = [_column(name, [row.get(name) for row in rows]) for name in columns]
    if not sys.stdout.isatty():
        click.echo("\n".join(table.lines(whole)))
        return
    room = shutil.get_terminal_size().columns
    shown = table.fitting(whole, room, [heading_of(name) for name in optional])
    click.echo("\n".join(table.lines(shown, room)))
    if hidden := [column.head for column in whole if column not in shown]:
        print_note(f"no room for: {', '.join(hidden)} (--format csv has them)")


def _column(name: str, values: Sequence[Any]) -> table.Column:
    number = all(isinstance(value, (int, float, type(None))) for value in values)
    return table.Column(heading_of(name), [cell(value) for value in values], number)


def heading_of(column: str) -> str:
    """The heading of a column: its name with spaces, unless it is the path of a member."""
    return column if "." in column else column.replace("_", " ")


LARGE = 1e7
"""Floats from here on are printed with an exponent."""


def cell(value: Any) -> str:
    """Format one value for a table: `-` for None, four significant digits for a float (12345.6 is 12350)."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        short = f"{value:.4g}"
        return f"{float(short):.0f}" if 1e4 <= abs(value) < LARGE else short
    if isinstance(value, (list, tuple)):
        return visible(", ".join(str(item) for item in value)).replace("\n", "\\n")
    return visible(str(value)).replace("\n", "\\n")
