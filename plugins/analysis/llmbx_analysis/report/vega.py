"""A chart as a Vega-Lite specification. Pure; `draw` turns it into SVG.

Colours are CSS variables (see `palette`), so that one drawing serves light and dark. Every series has layers of its
own, in groups of a class that begins with `s0_`, `s1_` …, and the mark of every value says in words what it shows.
"""

from __future__ import annotations

import math
from typing import Any

from llmbx.cli.words import number
from llmbx.model import Axis, Chart, Point, Rule, Series, Span

from .palette import SERIES

WIDTH, HEIGHT = 720, 260
SHAPES = ("circle", "square", "triangle-right", "cross", "triangle-down", "triangle-left")
DASHES: tuple[list[int], ...] = ([], [7, 3], [2, 3], [9, 3, 2, 3])
FEW = 16
"""Numbered things of which each has its own tick."""

BYTES = " : ".join(
    [f"datum.value >= {1 << bits} ? format(datum.value / {1 << bits}, '~r') + ' {prefix}'"
     for bits, prefix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))] + ["format(datum.value, '~r')"]
)  # fmt: skip
"""Labels of an axis of bytes, in Vega's expressions: 65536 is `64 Ki`."""

DOTS = 150
"""Lines of more points are drawn with small dots."""

Json = dict[str, Any]


def specification(chart: Chart, legend: bool = False) -> Json:
    """The chart in Vega-Lite. `legend`: with its own, for a drawing that stands alone."""
    chart = chart.replace(x=_numbered(chart))
    names = [series.name for series in chart.series]
    rules = [_rule(rule, place) for place, rule in enumerate(chart.rules)]
    layers = [_span(chart, span, place) for place, span in enumerate(chart.spans)]
    layers += [line for lines, _, rule in rules if rule.y is not None for line in lines]
    for place, series in enumerate(chart.series):
        layers += _series(chart, series, place)
    # A level lies under the curves, a place on the x axis over its bars; all names are on top.
    layers += [line for lines, _, rule in rules if rule.y is None for line in lines]
    layers += [word for _, label, _ in rules for word in label]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": WIDTH,
        "height": HEIGHT,
        "background": None,
        "padding": 8,
        "layer": layers,
        "encoding": {"color": _colours(names, legend and len(names) > 1)},
        "resolve": {"scale": {"shape": "independent"}},
        "config": _look(),
    }


def words(chart: Chart, series: Series, point: Point) -> str:
    """What one mark shows, in words: `step 12: 0.352 s (0.35 to 0.36)`."""
    where = f"{chart.x.title} {_at(chart.x, point.x)}"
    if point.until is not None:
        where = f"{chart.x.title} {number(point.x)} to {number(point.until)} {chart.x.unit}"
    said = f"{where}: {number(point.y)} {chart.y.unit}" if point.y is not None else where
    if point.low is not None and point.high is not None:
        said += f" ({number(point.low)} to {number(point.high)})"
    if len(chart.series) > 1:
        said = f"{series.name}, {said}"
    return f"{said}; {point.note}" if point.note else said


def _numbered(chart: Chart) -> Axis:
    """The x axis; one of few numbered things gets a tick for each of them, for there is nothing between two steps."""
    places = [point.x for series in chart.series for point in series.points]
    if chart.x.unit != "number" or chart.x.ticks or not places or max(places) - min(places) > FEW:
        return chart.x
    return chart.x.replace(ticks=tuple(range(math.ceil(min(places)), math.floor(max(places)) + 1)))


def _at(axis: Axis, x: float) -> str:
    return number(x) if axis.unit == "number" else f"{number(x)} {axis.unit}"


def _series(chart: Chart, series: Series, place: int) -> list[Json]:
    # A gap stays in the line's data; marks and intervals are of known values only.
    every = [_row(chart, series, point) for point in series.points]
    known = [row for row in every if row["y"] is not None]
    if not known:
        return []
    colour, name = {"datum": series.name}, f"s{place}"
    x, y = _axis("x", chart.x), _axis("y", chart.y)
    if series.marks == "bars":
        return [_bars(known, name, colour, x, y)]
    layers = []
    if any("low" in row for row in known):
        layers.append(_interval(known, name, colour, x, y, series.marks != "points"))
    if series.marks != "points":
        dash = [5, 4] if series.marks == "dashed" else DASHES[place // len(SERIES) % len(DASHES)]
        mark = {"type": "line", "aria": False, "clip": True, "strokeWidth": 2, "strokeDash": dash}
        layers.append(_layer(f"{name}_line", every, mark, {"x": x, "y": y, "color": colour, "order": {"field": "x"}}))
    layers.append(_dots(known, name, colour, x, y, place, series.marks == "points"))
    return layers


def _bars(rows: list[Json], name: str, colour: Json, x: Json, y: Json) -> Json:
    ends = {"x2": {"field": "until"}, "y2": {"datum": 0}, "description": {"field": "words"}}
    mark = {"type": "rect", "stroke": "var(--ground)", "strokeWidth": 1}
    return _layer(f"{name}_bars", rows, mark, {"x": x, "y": y, "color": colour, **ends})


def _interval(rows: list[Json], name: str, colour: Json, x: Json, y: Json, band: bool) -> Json:
    """A band along a line, bars through points."""
    mark = {"type": "area", "opacity": 0.25} if band else {"type": "rule", "strokeWidth": 2}
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    return _layer(f"{name}_interval", [r for r in rows if "low" in r], {**mark, "aria": False, "clip": True},
                  {"x": x, **ends, "color": colour})  # fmt: skip


def _dots(rows: list[Json], name: str, colour: Json, x: Json, y: Json, place: int, large: bool) -> Json:
    size = 70 if large else 8 if len(rows) > DOTS else 26
    shapes = {
        "condition": {"test": "datum.beyond", "value": "triangle-up"},
        "value": "diamond" if large else SHAPES[place % len(SHAPES)],
    }
    sizes = {"condition": {"test": "datum.beyond", "value": 90}, "value": size}
    shown = {"x": x, "y": y, "color": colour, "shape": shapes, "size": sizes, "description": {"field": "words"}}
    return _layer(f"{name}_points", rows, {"type": "point", "filled": True, "opacity": 1}, shown)


def _row(chart: Chart, series: Series, point: Point) -> Json:
    """A point as a row of data; what lies beyond the axis is drawn at its edge and says so."""
    row: Json = {"x": point.x, "y": point.y, "words": words(chart, series, point)}
    top = chart.y.top
    if top is not None and point.y is not None and point.y > top:
        row |= {"y": top, "beyond": True, "words": f"{row['words']}; beyond the axis"}
    if point.until is not None:
        row["until"] = point.until
    if point.low is not None and point.high is not None:
        row |= {"low": point.low, "high": point.high if top is None else min(point.high, top)}
    return row


def _layer(name: str, rows: list[Json], mark: Json, encoding: Json) -> Json:
    return {"name": name, "data": {"values": rows}, "mark": mark, "encoding": encoding}


def _axis(field: str, axis: Axis) -> Json:
    unit = "" if axis.unit in ("number", axis.title) else f" [{axis.unit}]"
    scale: Json = {"zero": axis.zero, "nice": field == "y" and axis.top is None}
    if axis.log:
        scale = {"type": "log", "base": 2, "nice": False}
    if axis.top is not None:
        scale["domainMax"] = axis.top
    shown: Json = {"grid": field == "y"}
    if axis.ticks:
        shown["values"] = list(axis.ticks)
    if axis.unit == "number":
        shown |= {"format": "d", "tickMinStep": 1}
    elif axis.log:
        shown["format"] = ",~f" if axis.ticks else "~s"
    if axis.unit == "B":
        shown = {**shown, "labelExpr": BYTES}
    return {"field": field, "type": "quantitative", "title": axis.title + unit, "scale": scale, "axis": shown}


def _span(chart: Chart, span: Span, place: int) -> Json:
    rows = [{"x": span.first, "until": span.last}]
    x = {**_axis("x", chart.x), "field": "x"}
    mark = {"type": "rect", "fill": "var(--span)", "aria": False, "clip": True}
    return _layer(f"span_{place}", rows, mark, {"x": x, "x2": {"field": "until"}, "color": {"value": "var(--span)"}})


def _rule(rule: Rule, place: int) -> tuple[list[Json], list[Json], Rule]:
    """A straight line and its name, both with a halo so that they can be seen on what they cross."""
    field, value = ("y", rule.y) if rule.y is not None else ("x", rule.x)
    where = {field: {"field": field, "type": "quantitative"}}
    at: Json = {"y": 10, "align": "left", "dx": 6}
    if field == "y":
        # Neighbours' names take turns, so that two close lines do not write over each other.
        at = {"dy": -7, **({"x": 6, "align": "left"} if place % 2 else {"x": WIDTH - 4, "align": "right"})}
    line = {"type": "rule", "aria": False}
    label = {"type": "text", "aria": False, "text": rule.name, "fontSize": 12, **at}
    halo, ink = {"color": {"value": "var(--ground)"}}, {"color": {"value": "var(--ink)"}}
    edge = {"stroke": {"value": "var(--ground)"}}
    rows = [{field: value}]
    lines = [
        _layer(f"halo_{place}", rows, {**line, "strokeWidth": 4, "opacity": 0.8}, where | halo),
        _layer(f"rule_{place}", rows, {**line, "strokeWidth": 1.5, "strokeDash": [4, 3]}, where | ink),
    ]
    name = [
        _layer(f"behind_{place}", rows, {**label, "strokeWidth": 4, "opacity": 0.8}, where | halo | edge),
        _layer(f"label_{place}", rows, label, where | ink),
    ]
    return lines, name, rule


def _colours(names: list[str], legend: bool) -> Json:
    colours = [f"var(--{SERIES[place % len(SERIES)]})" for place in range(len(names))]
    shown = {"orient": "bottom", "title": None, "labelLimit": 400, "columns": 3, "symbolType": "stroke",
             "symbolOpacity": 1, "symbolStrokeWidth": 3, "symbolSize": 200}  # fmt: skip
    return {
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": shown if legend else None,
    }  # fmt: skip


def _look() -> Json:
    axis = {"aria": False, "labelColor": "var(--soft)", "titleColor": "var(--ink)", "gridColor": "var(--grid)",
            "domainColor": "var(--line)", "tickColor": "var(--line)", "labelFontSize": 12, "titleFontSize": 13,
            "titleFontWeight": "normal"}  # fmt: skip
    return {
        "font": "sans-serif",
        "axis": axis,
        "axisY": {"titlePadding": 12},
        "view": {"stroke": None},
        "legend": {"labelColor": "var(--ink)", "labelFontSize": 12},
    }
