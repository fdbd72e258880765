"""Content of a report: metrics, tables and charts with their units. Plugins return sections; core renders them."""

from __future__ import annotations

from typing import Literal, TypeGuard

from .base import Scalar, Value

Marks = Literal["line", "dashed", "points", "bars", "cells"]
"""How a series is drawn: `bars` span from `x` to `until`, and from `low`, or 0; `cells` from `low` to `high`, those of
later series darker; the others connect or mark points."""


class Fact(Value, frozen=True):
    """One metric, or a text value."""

    name: str
    """Label of the value."""
    value: Scalar
    """Number or text; None if unknown."""
    unit: str = ""
    """Unit ("s", "tokens/s", "%", "steps"); required for numbers, empty for text."""
    formula: str | None = None
    """How the value was computed, with the numbers used."""
    low: float | None = None
    """Lower end of the interval."""
    high: float | None = None
    """Upper end of the interval."""
    of: str | None = None
    """Description of the interval ("95 % interval over 34 steps")."""
    note: str | None = None
    """Why the value is None, or a caveat."""

    def __post_init__(self) -> None:
        if is_number(self.value) and not self.unit:
            raise ValueError(f"figure '{self.name}' has no unit")


class Column(Value, frozen=True):
    """One column of a table."""

    title: str
    """Heading of the column."""
    unit: str = ""
    """Unit; required for a column of numbers. Write numbers that are only names as text ("7")."""
    formula: str | None = None
    """How the values were computed."""


class Table(Value, frozen=True):
    """Table of plain values."""

    title: str
    """Heading of the table."""
    columns: tuple[Column, ...]
    """Columns of the table."""
    rows: tuple[tuple[Scalar, ...], ...]
    """One value for each column; None if unknown."""
    note: str | None = None
    """Text below the table."""
    folded: bool = False
    """Whether the table is collapsed on a page until the reader opens it."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table '{self.title}': {len(row)} values for {len(self.columns)} columns")
        for column, values in zip(self.columns, zip(*self.rows, strict=True), strict=False):
            if not column.unit and any(is_number(value) for value in values):
                raise ValueError(f"table '{self.title}': column '{column.title}' has numbers and no unit")


class Axis(Value, frozen=True):
    """One axis of a chart."""

    title: str
    """Label of the axis."""
    unit: str
    """Unit, required ("number" for numbered things such as steps). "year" is a date in years, shown as 2025-09."""
    log: bool = False
    """Whether the axis is logarithmic."""
    zero: bool = False
    """Whether the axis starts at 0."""
    ticks: tuple[float, ...] = ()
    """Explicit tick positions; empty: automatic."""
    top: float | None = None
    """Upper limit of the axis; larger values are drawn at the edge."""

    def __post_init__(self) -> None:
        if not self.unit:
            raise ValueError(f"axis '{self.title}' has no unit")


class Point(Value, frozen=True):
    """One point of a series."""

    x: float
    """Position on the x axis."""
    y: float | None
    """Value; None is a gap."""
    low: float | None = None
    """Lower end of the value's interval."""
    high: float | None = None
    """Upper end of the value's interval."""
    until: float | None = None
    """End of a bar on the x axis."""
    note: str | None = None
    """Remark for the reader."""


class Series(Value, frozen=True):
    """Points of one curve or set of bars."""

    name: str
    """Name in the legend."""
    points: tuple[Point, ...]
    """Points, in the order in which they are connected."""
    marks: Marks = "line"
    """How the series is drawn."""


class Span(Value, frozen=True):
    """Shaded interval of the x axis."""

    name: str
    """Label of the interval."""
    first: float
    """Start on the x axis."""
    last: float
    """End on the x axis."""


class Rule(Value, frozen=True):
    """Straight line across the chart."""

    name: str
    """Label of the line."""
    y: float | None = None
    """Position of a horizontal line."""
    x: float | None = None
    """Position of a vertical line."""


class Chart(Value, frozen=True):
    """Chart of one or several series."""

    name: str
    """Identifier for files and anchors ("step-time")."""
    title: str
    """Heading of the chart."""
    x: Axis
    """Horizontal axis."""
    y: Axis
    """Vertical axis."""
    series: tuple[Series, ...]
    """Series of the chart."""
    summary: str
    """What the chart shows, in words."""
    spans: tuple[Span, ...] = ()
    """Shaded intervals."""
    rules: tuple[Rule, ...] = ()
    """Straight lines."""
    formula: str | None = None
    """How the values were computed."""


class Section(Value, frozen=True):
    """One section of a report."""

    name: str
    """Identifier for anchors, unique in the report."""
    title: str
    """Heading of the section."""
    text: tuple[str, ...] = ()
    """Paragraphs."""
    warnings: tuple[str, ...] = ()
    """Highlighted paragraphs."""
    facts: tuple[Fact, ...] = ()
    """Metrics."""
    tables: tuple[Table, ...] = ()
    """Tables."""
    charts: tuple[Chart, ...] = ()
    """Charts."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether `value` is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
