"""Read and write the table of published figures: CSV, compressed if it ends in .xz."""

from __future__ import annotations

import csv
import functools
import io
import lzma
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from llmbx.api import UsageError, convert_toml, did_you_mean, write_atomic

from .row import Row

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

COLUMNS = Row.__struct_fields__


@functools.cache
def shipped() -> tuple[Row, ...]:
    """The rows that ship with this package."""
    return read(resources.files(__package__.rpartition(".")[0]) / "data" / "atlas.csv.xz")


def read(
    path: Path | Traversable, defaults: Mapping[str, str] | None = None, required: Sequence[str] = ()
) -> tuple[Row, ...]:
    """Read a table. Raises `UsageError` with file, line and column for what is not a row.

    `defaults` fill columns that the table lacks; `place` is the line if the table does not say another. A header
    without a column of `required` is an error.
    """
    try:
        data = path.read_bytes()
        text = (lzma.decompress(data) if path.name.endswith(".xz") else data).decode()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a CSV table: {error}") from error
    reader = csv.DictReader(io.StringIO(text))
    for name in reader.fieldnames or ():
        if name not in COLUMNS:
            raise UsageError(f"{path}: unknown column '{name}'{did_you_mean(name, COLUMNS)}")
    for name in required:
        if name not in (reader.fieldnames or ()):
            raise UsageError(f"{path}: the column '{name}' is missing")
    place = f"{path}: line"
    return tuple(
        _row({"place": f"line {reader.line_num}", **(defaults or {})}, record, f"{place} {reader.line_num}")
        for record in reader
    )


def _row(defaults: Mapping[str, str], record: Mapping[str, str], place: str) -> Row:
    if None in record or None in record.values():
        raise UsageError(f"{place}: the line has another number of cells than the header")
    cells = {name: text.strip() for name, text in record.items() if text.strip()}
    values = {name: _value(name, text, place) for name, text in {**defaults, **cells}.items()}
    return convert_toml(values, Row, place)


def _value(name: str, text: str, place: str) -> Any:
    """A cell by the type of its column."""
    kind = _kinds()[name]
    try:
        if "bool" in kind:
            return {"true": True, "false": False}[text.lower()]
        if "int" in kind and "str" not in kind:
            return int(text)
        if "float" in kind:
            return float(text)
    except (ValueError, KeyError):
        expected = "true or false" if "bool" in kind else "an integer" if "int" in kind else "a number"
        raise UsageError(f"{place}: {name}: expected {expected}, got '{text}'") from None
    return text


@functools.cache
def _kinds() -> dict[str, str]:
    """The type of each column as a text. A table needs it thousands of times."""
    return {name: str(kind) for name, kind in get_type_hints(Row).items()}


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write a table with the columns that any row has."""
    text = io.StringIO()
    used = [name for name in COLUMNS if any(getattr(row, name) not in (None, "") for row in rows)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(used)
    writer.writerows([[_cell(getattr(row, name)) for name in used] for row in rows])
    data = text.getvalue().encode()
    write_atomic(path, lzma.compress(data, preset=9) if path.name.endswith(".xz") else data)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else f"{value:.7g}" if isinstance(value, float) else value
