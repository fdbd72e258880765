"""Runs as CSV with every column of the history."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import is_number
from llmbx.api.verbs import to_csv

from .measures import Row, text


def csv(rows: Sequence[Row]) -> str:
    """One line per run; unknown values are empty, dates ISO 8601 in UTC, tags separated by spaces."""
    columns = list(rows[0])
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    return to_csv(plain, columns)


def _plain(value: object) -> object:
    if value is None or is_number(value):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else text(value)
