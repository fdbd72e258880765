"""Charts as specifications and drawings: the shaded window, all values, and the range of the axis."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.model import Axis, Chart, Point, Reference, Rule, Series, Span, Step
from llmbx_analysis.report import draw, palette, vega
from llmbx_analysis.report.curves import BARS, bars, curves
from llmbx_analysis.report.vega import values_table
from llmbx_verdict.statistics.series import MAX_POINTS, thinned

from ....run_factory import RunFactory, Toy, noise
from .conftest import Reporter

AWKWARD = "<script>alert('&amp;\")</script>"
CHART = Chart(
    name="time", title=AWKWARD, summary=f"all of it {AWKWARD}",
    x=Axis(title="step", unit="number"), y=Axis(title="time", unit="s", top=2.0),
    series=(
        Series(name=AWKWARD, points=(Point(x=0, y=9.0), Point(x=1, y=1.0, low=0.9, high=1.1), Point(x=2, y=None))),
        Series(name="published", points=(Point(x=1, y=1.2, note=AWKWARD),), marks="points"),
    ),
    spans=(Span(name="window", first=0.5, last=1.5),), rules=(Rule(name=AWKWARD, y=1.0),),
)  # fmt: skip


def test_the_window_is_shaded_and_its_mean_drawn(run_factory: RunFactory, reporter: Reporter) -> None:
    (cell,) = reporter.cells(run_factory.put(noise(1, 2.0)))
    chart = curves(cell)[0]
    assert [(span.first, span.last) for span in chart.spans] == [(10.5, 44.5)]
    spec = vega.specification(chart)
    shaded = next(layer for layer in spec["layer"] if layer["name"] == "span_0")
    assert shaded["data"]["values"] == [{"x": 10.5, "until": 44.5}]
    assert shaded["mark"]["type"] == "rect"
    assert [rule.y for rule in chart.rules] == [pytest.approx(cell.newest.result.step_time_s.mean)]


def test_close_reference_step_times_are_drawn(
    run_factory: RunFactory, reporter: Reporter, toy: Toy, row: Reference
) -> None:
    toy.references = (row,)
    run_factory.put([0.9] * 50, tags=("accepted",))
    (cell,) = reporter.cells(run_factory.put([1.1] * 50), baseline="accepted")
    assert [rule.name for rule in curves(cell)[0].rules] == ["mean 1.1 s", "baseline accepted 0.9 s", "published 1 s"]


def test_distant_reference_step_times_are_not_drawn(
    run_factory: RunFactory, reporter: Reporter, toy: Toy, row: Reference
) -> None:
    toy.references = (row.replace(step_time_s=9.0),)
    (cell,) = reporter.cells(run_factory.put([1.2] * 50))
    assert len(cell.comparisons) == 1
    assert [rule.name for rule in curves(cell)[0].rules] == ["mean 1.2 s"]


def test_a_slow_first_step_does_not_flatten_the_others(run_factory: RunFactory, reporter: Reporter) -> None:
    (cell,) = reporter.cells(run_factory.put([60.0, *noise(1, 2.0)[1:]]))
    chart = curves(cell)[0]
    assert chart.y.top is not None and chart.y.top < 3
    points = next(layer for layer in vega.specification(chart)["layer"] if layer["name"] == "s0_points")
    first = points["data"]["values"][0]
    assert (
        first["y"] == chart.y.top
        and "step 0: 60 s" in first["description"]
        and "beyond the axis" in first["description"]
    )
    assert values_table(chart).rows[0][1] == 60.0


def test_outliers_and_steps_outside_the_window_are_named(run_factory: RunFactory, reporter: Reporter) -> None:
    times = noise(1, 2.0)
    times[20] = 3.0
    (cell,) = reporter.cells(run_factory.put(times))
    notes = {point.x: point.note for point in curves(cell)[0].series[0].points}
    assert notes[5] == "not measured" and notes[15] is None
    assert (notes[20] or "").startswith("outlier, 1.5")


def test_not_finite_losses_are_gaps(run_factory: RunFactory, reporter: Reporter) -> None:
    (cell,) = reporter.cells(run_factory.put(noise(1, 2.0)))
    broken = cell.newest.replace(steps=tuple(
        Step(number=s.number, time_s=s.time_s, loss=float("nan") if s.number == 3 else 1.5) for s in cell.newest.steps
    ))  # fmt: skip
    chart = next(c for c in curves(cell.replace(runs=(broken,))) if c.name == "loss")
    assert [p.x for p in chart.series[0].points if p.y is None] == [3]
    ET.fromstring(draw.standalone(chart))


@given(st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=4, max_size=200))
def test_every_value_is_in_exactly_one_bar(values: list[float]) -> None:
    ordered = sorted(values)
    if ordered[0] == ordered[-1]:
        return
    found = bars(ordered)
    assert BARS[0] <= len(found) <= BARS[1]
    assert sum(point.y or 0 for point in found) == len(values)
    assert found[0].x == ordered[0] and found[-1].until == ordered[-1]
    for point in found:
        assert point.until is not None
        last = point is found[-1]
        inside = [v for v in ordered if point.x <= v and (v < point.until or (last and v <= point.until))]
        assert point.y == len(inside)


@given(st.lists(st.floats(min_value=0, max_value=10) | st.none(), min_size=1, max_size=3000))
def test_long_curves_are_thinned_and_keep_their_extremes(values: list[float | None]) -> None:
    points = [Point(x=k, y=value) for k, value in enumerate(values)]
    found = thinned(points)
    assert len(found) <= MAX_POINTS
    known = [value for value in values if value is not None]
    if known and len(values) > MAX_POINTS:
        assert min(p.low for p in found if p.low is not None) == min(known)
        assert max(p.high for p in found if p.high is not None) == max(known)


def test_a_standalone_drawing_is_valid_and_escaped() -> None:
    svg = draw.standalone(CHART)
    root = ET.fromstring(svg)
    assert root.tag.endswith("svg")
    assert "var(" not in svg and "<script" not in svg
    assert root.find("{http://www.w3.org/2000/svg}title").text == AWKWARD  # type: ignore[union-attr]
    assert re.search(r">published<", svg), "the legend"


def test_an_embedded_drawing_uses_css_colors_and_describes_every_value() -> None:
    svg = draw.for_page(CHART, "here")
    root = ET.fromstring(svg)
    assert set(re.findall(r"var\(--(\w+)\)", svg)) <= set(palette.LIGHT)
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert ids and all(name.startswith("here-") for name in ids)
    assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= set(ids)
    named = [mark.get("aria-label") for mark in root.iter() if mark.get("role") == "graphics-symbol"]
    assert len(named) == 3 and all(" s" in (name or "") for name in named)
    assert any(AWKWARD in (name or "") for name in named)


def test_bars_float_between_their_ends_and_cells_get_darker_from_series_to_series() -> None:
    point = Point(x=0, until=1, y=3.0, low=2.0, high=3.0)
    floating = CHART.replace(series=(Series(name="a", points=(point,), marks="bars"),), rules=(), spans=())
    (bars_layer,) = vega.specification(floating)["layer"]
    assert bars_layer["encoding"]["y2"] == {"field": "low"} and bars_layer["data"]["values"][0]["low"] == 2.0
    cells = tuple(Series(name=name, points=(point,), marks="cells") for name in "ab")
    layers = vega.specification(floating.replace(series=cells))["layer"]
    light, dark = (layer["mark"]["fillOpacity"] for layer in layers)
    assert light < dark and {layer["mark"]["fill"] for layer in layers} == {layers[0]["mark"]["fill"]}
    assert draw.standalone(floating.replace(series=cells))


def test_axes_have_units() -> None:
    text = json.dumps(vega.specification(CHART))
    assert '"title": "time [s]"' in text and '"title": "step"' in text


def test_dates_are_shown_as_months() -> None:
    points = tuple(Point(x=2024 + month / 12, y=1.0) for month in (0, 8, 25))
    chart = Chart(
        name="published", title="By release", x=Axis(title="release", unit="year"), y=Axis(title="rate", unit="1/s"),
        series=(Series(name="h100", points=points),), summary="",
    )  # fmt: skip
    labels = ["2024-01", "2024-07", "2025-01", "2025-07", "2026-01"]
    assert re.findall(r">(\d{4}-\d\d)<", draw.standalone(chart)) == labels
    assert [row[0] for row in values_table(chart).rows] == ["2024-01", "2024-09", "2026-02"]


def test_bytes_have_binary_units() -> None:
    points = tuple(Point(x=1 << k, until=2 << k, y=k + 1) for k in (6, 16, 24, 31))
    chart = CHART.replace(x=Axis(title="message", unit="B", log=True), y=Axis(title="calls", unit="calls", zero=True),
                          series=(Series(name="calls", points=points, marks="bars"),), spans=(), rules=())  # fmt: skip
    texts = re.findall(r">([^<>]+)</text>", draw.standalone(chart))
    assert "message [B]" in texts and "1 Ki" in texts and "16 Mi" in texts


@pytest.mark.parametrize(("last", "labels"), [(6, ["4", "5", "6"]), (4, ["4"])])
def test_ticks_are_whole_steps(last: int, labels: list[str]) -> None:
    series = (Series(name="a", points=tuple(Point(x=k, y=10.5 + k) for k in range(4, last + 1))),)
    text = draw.standalone(CHART.replace(series=series, spans=(), rules=(), y=Axis(title="time", unit="s")))
    axis = text.split("role-axis-label")[1].split("role-axis")[0]
    assert re.findall(r">([^<>]+)</text>", axis) == labels
