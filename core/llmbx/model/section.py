"""What a report is made of: figures, tables and charts with their units. Plugins return sections; core draws."""

from __future__ import annotations

from typing import Literal

from .base import Scalar, Value

Marks = Literal["line", "dashed", "points", "bars"]
"""How a series is drawn; `bars` reach from `x` to `until`, the others join or mark points."""


class Fact(Value, frozen=True):
    """One figure. A number needs its `unit` ("s", "tokens/s", "%", "steps"); words have none.

    `formula` says how it was computed, with the numbers that went in. `low` and `high` are its interval, `of` says
    which ("95 % interval over 34 steps"). `note` says why a value is None, or what is doubtful.
    """

    name: str
    value: Scalar
    unit: str = ""
    formula: str | None = None
    low: float | None = None
    high: float | None = None
    of: str | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        if is_number(self.value) and not self.unit:
            raise ValueError(f"figure '{self.name}' has no unit")


class Column(Value, frozen=True):
    """One column of a table. A column of numbers needs its `unit`; numbers that only name something are words ("7")."""

    title: str
    unit: str = ""
    formula: str | None = None


class Table(Value, frozen=True):
    """Rows of plain values, one for each column; None is unknown. `note` stands below it.

    `folded`: long, so that a page shows it when asked.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    note: str | None = None
    folded: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table '{self.title}': {len(row)} values for {len(self.columns)} columns")
        for column, values in zip(self.columns, zip(*self.rows, strict=True), strict=False):
            if not column.unit and any(is_number(value) for value in values):
                raise ValueError(f"table '{self.title}': column '{column.title}' has numbers and no unit")


class Axis(Value, frozen=True):
    """One axis of a chart; its unit is needed ("number" for things that are numbered, as steps are).

    `ticks` are the only marks on it where they are given. What lies above `top` is drawn at the edge.
    """

    title: str
    unit: str
    log: bool = False
    zero: bool = False
    ticks: tuple[float, ...] = ()
    top: float | None = None

    def __post_init__(self) -> None:
        if not self.unit:
            raise ValueError(f"axis '{self.title}' has no unit")


class Point(Value, frozen=True):
    """One value of a series. `low` and `high` are its interval, `until` the end of a bar, `note` words for the reader.

    A point without `y` is a gap.
    """

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None
    until: float | None = None
    note: str | None = None


class Series(Value, frozen=True):
    """Points that belong together."""

    name: str
    points: tuple[Point, ...]
    marks: Marks = "line"


class Span(Value, frozen=True):
    """A shaded stretch of the x axis, from `first` to `last`."""

    name: str
    first: float
    last: float


class Rule(Value, frozen=True):
    """A straight line across the chart, at `y` or at `x`."""

    name: str
    y: float | None = None
    x: float | None = None


class Chart(Value, frozen=True):
    """A chart. `name` is a word for files and anchors ("step-time"); `summary` says in words what is to be seen."""

    name: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    summary: str
    spans: tuple[Span, ...] = ()
    rules: tuple[Rule, ...] = ()
    formula: str | None = None


class Section(Value, frozen=True):
    """A part of a report. `name` is a word for anchors, unique in its report; `warnings` stand out from `text`."""

    name: str
    title: str
    text: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()


def is_number(value: object) -> bool:
    """Whether a value is a number (True and False are words)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
