"""Print runs as a table, CSV, JSON, or one JSON object a line, and what is not shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from llmbx.api import Scalar
from llmbx.api.verbs import visible_json

if TYPE_CHECKING:
    from .runs import Listing


def shown(
    rows: Sequence[Sequence[Scalar]], names: Sequence[str], root: str
) -> list[dict[str, Any]]:
    """The rows by column, with their values as they are shown."""
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    for name, read in _readers(names, root).items():
        if name in names:
            position = names.index(name)
            columns[position] = tuple(map(read, columns[position]))
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def write_json(documents: Sequence[str]) -> None:
    """Write the JSON documents as one array, 5000 at a time: they may be 90 MB."""
    if not documents:
        sys.stdout.write("[]\n")
        return
    for start in range(0, len(documents), 5000):
        sys.stdout.write(",\n" if start else "[\n")
        sys.stdout.write(visible_json(",\n".join(documents[start : start + 5000])))
    sys.stdout.write("\n]\n")


def write_lines(values: Iterable[Any]) -> None:
    """Write each value as one line of JSON."""
    for value in values:
        text = msgspec.json.format(msgspec.json.encode(value), indent=-1).decode()
        sys.stdout.write(visible_json(text) + "\n")


def _readers(names: Sequence[str], root: str) -> Mapping[str, Callable[[Any], Any]]:
    """Functions that convert stored values for display, by column; others are shown as stored."""
    from .columns import COLUMNS, full_name

    now = time.time()
    special: dict[str, Callable[[Any], Any]] = {
        "age": lambda value: age(now - value),
        "folder": lambda value: value if value.startswith("/") else f"{root}/{value}",
    }
    by_kind: dict[str, Callable[[Any], Any]] = {
        "flag": lambda value: None if value is None else bool(value),
        "words": lambda value: ", ".join((value or "").split()) or None,
    }
    for name in names:
        stored = COLUMNS.get(full_name(name) or "")
        if stored is not None and stored.kind in by_kind:
            special[name] = by_kind[stored.kind]
    return special


def nothing(listing: Listing, root: str) -> str:
    """Why a table is empty."""
    if listing.of_others:
        return f"none of your runs in {root} match; --user all selects those of all users"
    if listing.runs:
        return f"none of the {listing.runs} runs in {root} match"
    return f"no runs in {root}"


def remarks(listing: Listing, shown: int, format_: str) -> None:
    """Print on stderr which runs are not shown."""
    if listing.fitting > shown and format_ == "table":
        click.echo(f"{shown} of {listing.fitting} runs shown; use --limit 0 to list all", err=True)
    if listing.of_others and format_ == "table":
        runs = "1 run" if listing.of_others == 1 else f"{listing.of_others} runs"
        click.echo(f"{runs} of other users not shown; use --user all to list all", err=True)
    for folder, why in listing.damaged[:3]:
        click.echo(f"llmbx: note: {folder} cannot be read: {why}", err=True)
    if len(listing.damaged) > 3:
        more = len(listing.damaged) - 3
        click.echo(f"llmbx: note: {more} more folders cannot be read", err=True)


def age(seconds: float) -> str:
    """A time span in the largest unit that fits: `12 s`, `5 min`, `3 h`, `4 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
