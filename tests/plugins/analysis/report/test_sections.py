"""Numbers, columns and axes of a report need a unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.model import Axis, Chart, Column, Fact, Point, Series, Table
from llmbx_analysis.report.vega import values_table

NUMBERS = st.integers() | st.floats()


@given(NUMBERS)
def test_a_number_without_a_unit_is_rejected(value: float) -> None:
    with pytest.raises(ValueError, match="no unit"):
        Fact(name="speed", value=value)
    with pytest.raises(ValueError, match="numbers and no unit"):
        Table(title="t", columns=(Column(title="a"), Column(title="b")), rows=(("x", "y"), ("x", value)))
    assert Fact(name="speed", value=value, unit="m/s").value is value


@pytest.mark.parametrize("value", ["words", True, None])
def test_texts_need_no_unit(value: str | bool | None) -> None:
    assert Fact(name="state", value=value).unit == ""
    Table(title="t", columns=(Column(title="a"),), rows=((value,),))


def test_an_axis_without_a_unit_is_rejected() -> None:
    with pytest.raises(ValueError, match="axis 'speed' has no unit"):
        Axis(title="speed", unit="")


def test_a_row_has_a_value_for_each_column() -> None:
    with pytest.raises(ValueError, match="2 values for 1 columns"):
        Table(title="t", columns=(Column(title="a"),), rows=(("x", "y"),))


def test_the_table_of_a_chart_has_every_value_with_its_unit() -> None:
    chart = Chart(
        name="c", title="Speed", x=Axis(title="step", unit="number"), y=Axis(title="time", unit="s"), summary="s",
        series=(
            Series(name="a", points=(Point(x=1, y=0.5, low=0.4, high=0.6), Point(x=2, y=None))),
            Series(name="b", points=(Point(x=1, y=0.7, note="odd"),), marks="points"),
        ),
    )  # fmt: skip
    table = values_table(chart)
    assert [f"{c.title} {c.unit}".strip() for c in table.columns] == [
        "series",
        "step",
        "time s",
        "low s",
        "high s",
        "note",
    ]
    assert table.rows == (
        ("a", "1", 0.5, 0.4, 0.6, ""),
        ("a", "2", None, None, None, ""),
        ("b", "1", 0.7, None, None, "odd"),
    )
