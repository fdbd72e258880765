"""What a report is made of: figures, tables and charts with their units. Plugins return sections; core draws."""

from __future__ import annotations

from typing import Literal

from .base import Scalar, Value

Marks = Literal["line", "dashed", "points", "bars"]
"""How a series is drawn; `bars` reach from `x` to `until`, the others join or mark points."""


class Fact(Value, frozen=True):
    """One figure, or a word."""

    name: str
    """What it is called."""
    value: Scalar
    """The number or word; None is unknown."""
    unit: str = ""
    """The unit ("s", "tokens/s", "%", "steps"): a number needs one, words have none."""
    formula: str | None = None
    """How it was computed, with the numbers that went in."""
    low: float | None = None
    """The lower end of its interval."""
    high: float | None = None
    """The upper end."""
    of: str | None = None
    """Which interval ("95 % interval over 34 steps")."""
    note: str | None = None
    """Why a value is None, or what is doubtful."""

    def __post_init__(self) -> None:
        if is_number(self.value) and not self.unit:
            raise ValueError(f"figure '{self.name}' has no unit")


class Column(Value, frozen=True):
    """One column of a table."""

    title: str
    """Its head."""
    unit: str = ""
    """The unit; a column of numbers needs one. Numbers that only name something are words ("7")."""
    formula: str | None = None
    """How its values were computed."""


class Table(Value, frozen=True):
    """Rows of plain values."""

    title: str
    """What stands above it."""
    columns: tuple[Column, ...]
    """Its columns."""
    rows: tuple[tuple[Scalar, ...], ...]
    """One value for each column; None is unknown."""
    note: str | None = None
    """What stands below it."""
    folded: bool = False
    """Whether it is long, so that a page shows it when asked."""

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
    """What it shows."""
    unit: str
    """The unit, which is needed ("number" for things that are numbered, as steps are)."""
    log: bool = False
    """Whether it is logarithmic."""
    zero: bool = False
    """Whether it begins at 0."""
    ticks: tuple[float, ...] = ()
    """The only marks on it, where they are given."""
    top: float | None = None
    """What lies above is drawn at the edge."""

    def __post_init__(self) -> None:
        if not self.unit:
            raise ValueError(f"axis '{self.title}' has no unit")


class Point(Value, frozen=True):
    """One value of a series."""

    x: float
    """Where it lies."""
    y: float | None
    """Its value; None is a gap."""
    low: float | None = None
    """The lower end of its interval."""
    high: float | None = None
    """The upper end."""
    until: float | None = None
    """The end of a bar."""
    note: str | None = None
    """Words for the reader."""


class Series(Value, frozen=True):
    """Points that belong together."""

    name: str
    """Its name in the legend."""
    points: tuple[Point, ...]
    """In the order in which they are joined."""
    marks: Marks = "line"
    """How it is drawn."""


class Span(Value, frozen=True):
    """A shaded stretch of the x axis."""

    name: str
    """What it marks."""
    first: float
    """Where it begins."""
    last: float
    """Where it ends."""


class Rule(Value, frozen=True):
    """A straight line across the chart."""

    name: str
    """What it marks."""
    y: float | None = None
    """At which y."""
    x: float | None = None
    """Or at which x."""


class Chart(Value, frozen=True):
    """A chart."""

    name: str
    """A word for files and anchors ("step-time")."""
    title: str
    """What stands above it."""
    x: Axis
    """The horizontal axis."""
    y: Axis
    """The vertical axis."""
    series: tuple[Series, ...]
    """What is drawn."""
    summary: str
    """In words, what is to be seen."""
    spans: tuple[Span, ...] = ()
    """Shaded stretches."""
    rules: tuple[Rule, ...] = ()
    """Straight lines."""
    formula: str | None = None
    """How its values were computed."""


class Section(Value, frozen=True):
    """A part of a report."""

    name: str
    """A word for anchors, unique in its report."""
    title: str
    """Its heading."""
    text: tuple[str, ...] = ()
    """Paragraphs."""
    warnings: tuple[str, ...] = ()
    """Paragraphs that stand out."""
    facts: tuple[Fact, ...] = ()
    """Figures."""
    tables: tuple[Table, ...] = ()
    """Tables."""
    charts: tuple[Chart, ...] = ()
    """Charts."""


def is_number(value: object) -> bool:
    """Whether a value is a number (True and False are words)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
