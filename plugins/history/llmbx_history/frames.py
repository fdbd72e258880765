"""Rows of the history as data frames of pandas and polars, which are imported here only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llmbx.api.verbs import imported

from .columns import COLUMNS, Kind

if TYPE_CHECKING:
    import pandas
    import polars

Rows = Sequence[Mapping[str, Any]]

PANDAS: dict[Kind, str] = {
    "text": "string",
    "number": "float64",
    "count": "Int64",
    "flag": "boolean",
    "date": "datetime64[us, UTC]",
    "words": "object",
}
"""Kind of column -> pandas dtype. All of them can represent an unknown value."""


def to_pandas(rows: Rows) -> pandas.DataFrame:
    """A pandas frame of these rows; an empty one has the same columns and dtypes."""
    library = imported("pandas")
    series = {
        name: library.Series([row[name] for row in rows], dtype=PANDAS[kind])
        for name, kind in _kinds().items()
    }
    frame: pandas.DataFrame = library.DataFrame(series)
    return frame


def to_polars(rows: Rows) -> polars.DataFrame:
    """A polars frame of these rows; an empty one has the same columns and dtypes."""
    library = imported("polars")
    types = {
        "text": library.String,
        "number": library.Float64,
        "count": library.Int64,
        "flag": library.Boolean,
        "date": library.Datetime("us", "UTC"),
        "words": library.List(library.String),
    }
    kinds = _kinds()
    data = {
        name: [list(row[name]) if kind == "words" else row[name] for row in rows]
        for name, kind in kinds.items()
    }
    schema = {name: types[kind] for name, kind in kinds.items()}
    frame: polars.DataFrame = library.DataFrame(data, schema=schema)
    return frame


def _kinds() -> dict[str, Kind]:
    return {**{name: column.kind for name, column in COLUMNS.items()}, "folder": "text"}
