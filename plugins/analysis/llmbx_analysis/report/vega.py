"""Vega-Lite specifications of charts. `draw` renders them as SVG.

Colors are CSS variables (see `palette`), so that one drawing works in light and dark mode. Every series has its own
layers, in groups whose class begins with `s0_`, `s1_` …. Every mark has a text description of its value.
"""

from __future__ import annotations

import math
from typing import Any

from llmbx.api import Axis, Chart, Column, Point, Rule, Scalar, Series, Span, Table
from llmbx.api.verbs import format_number

from .palette import SERIES

WIDE, NARROW = (720, 260), (230, 200)
"""Width and height of the plot in pixels, for wide screens and paper, and for telephones."""

SHAPES = ("circle", "square", "triangle-right", "cross", "triangle-down", "triangle-left")
DASHES: tuple[list[int], ...] = ([], [7, 3], [2, 3], [9, 3, 2, 3])
FEW = 16
"""Most integer x values for which each one gets a tick."""

BYTES = " : ".join(
    [f"datum.value >= {1 << bits} ? format(datum.value / {1 << bits}, '~r') + ' {prefix}'"
     for bits, prefix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))] + ["format(datum.value, '~r')"]
)  # fmt: skip
"""Vega expression for the labels of an axis in bytes: 65536 is `64 Ki`."""

MONTHS = (1, 3, 6, 12, 24, 60, 120)
"""Distances of ticks on an axis of dates."""

MONTH = "floor(datum.value + 0.01) + '-' + format(round((datum.value + 0.01) % 1 * 12 - 0.12) + 1, '02d')"
"""Vega expression for the labels of an axis of dates: 2025.667 is `2025-09`."""

DOTS = 150
"""Lines with more points are drawn with small dots."""

Json = dict[str, Any]


def specification(chart: Chart, legend: bool = False, size: tuple[int, int] = WIDE) -> Json:
    """The Vega-Lite specification of the chart. `legend` adds a legend if there are several series.

    `size` is the width and height of the plot in pixels.
    """
    chart = chart.replace(x=_x_axis(chart))
    names = [series.name for series in chart.series]
    right = _middle(chart)
    rules = [_rule(rule, index, size[0], right) for index, rule in enumerate(chart.rules)]
    layers = [_span(chart, span, index) for index, span in enumerate(chart.spans)]
    layers += [line for lines, _, rule in rules if rule.y is not None for line in lines]
    for index, series in enumerate(chart.series):
        layers += _series(chart, series, index)
    # Horizontal rules are drawn below the curves, vertical rules above the bars, and all labels on top.
    layers += [line for lines, _, rule in rules if rule.y is None for line in lines]
    layers += [word for _, label, _ in rules for word in label]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": size[0],
        "height": size[1],
        "background": None,
        "padding": 8,
        "layer": layers,
        "encoding": {"color": _colors(names, legend and len(names) > 1)},
        "resolve": {"scale": {"shape": "independent"}},
        "config": _config(),
    }


def describe(chart: Chart, series: Series, point: Point) -> str:
    """The text description of one mark: `step 12: 0.352 s (0.35 to 0.36)`."""
    where = f"{chart.x.title} {_format_x(chart.x, point.x)}"
    if point.until is not None:
        where = f"{chart.x.title} {format_number(point.x)} to {format_number(point.until)} {chart.x.unit}"
    text = f"{where}: {format_number(point.y)} {chart.y.unit}" if point.y is not None else where
    if point.low is not None and point.high is not None:
        text += f" ({format_number(point.low)} to {format_number(point.high)})"
    if len(chart.series) > 1:
        text = f"{series.name}, {text}"
    return f"{text}; {point.note}" if point.note else text


def _x_axis(chart: Chart) -> Axis:
    """The x axis. If it counts at most `FEW` items (such as steps), each one gets a tick."""
    places = [point.x for series in chart.series for point in series.points]
    if chart.x.unit == "year" and places:
        return chart.x.replace(ticks=_months(min(places), max(places)))
    if chart.x.unit != "number" or chart.x.ticks or not places or max(places) - min(places) > FEW:
        return chart.x
    return chart.x.replace(ticks=tuple(range(math.ceil(min(places)), math.floor(max(places)) + 1)))


def _months(first: float, last: float) -> tuple[float, ...]:
    """Ticks at whole months between two dates in years, at most nine."""
    months = math.floor(12 * first), math.ceil(12 * last)
    step = next((step for step in MONTHS if (months[1] - months[0]) / step <= 8), MONTHS[-1])
    return tuple(month / 12 for month in range(-(-months[0] // step) * step, months[1] + 1, step))


def _date(year: float) -> str:
    """A date in years as its month: 2025.667 is 2025-09."""
    months = round(12 * year)
    return f"{months // 12}-{months % 12 + 1:02d}"


def _format_x(axis: Axis, x: float) -> str:
    if axis.unit == "year":
        return _date(x)
    return format_number(x) if axis.unit == "number" else f"{format_number(x)} {axis.unit}"


def _series(chart: Chart, series: Series, index: int) -> list[Json]:
    # Unknown values stay in the data of the line as gaps; marks and intervals only have known values.
    rows = [_row(chart, series, point) for point in series.points]
    drawn = [row for row in rows if row["y"] is not None]
    if not drawn:
        return []
    color, name = {"datum": series.name}, f"s{index}"
    x, y = _axis("x", chart.x), _axis("y", chart.y)
    if series.marks == "cells":
        return [_cells(drawn, name, x, y, (index + 1) / len(chart.series))]
    if series.marks == "bars":
        return [_bars(drawn, name, color, x, y, SERIES[index % len(SERIES)] if len(chart.series) > 1 else None)]
    layers = []
    if any("low" in row for row in drawn):
        layers.append(_interval(drawn, name, color, x, y, series.marks != "points"))
    if series.marks != "points":
        dash = [5, 4] if series.marks == "dashed" else DASHES[index // len(SERIES) % len(DASHES)]
        mark = {"type": "line", "aria": False, "clip": True, "strokeWidth": 2, "strokeDash": dash}
        layers.append(_layer(f"{name}_line", rows, mark, {"x": x, "y": y, "color": color, "order": {"field": "x"}}))
    layers.append(_dots(drawn, name, color, x, y, index, series.marks == "points"))
    return layers


def _bars(rows: list[Json], name: str, color: Json, x: Json, y: Json, edge: str | None) -> Json:
    """Bars. Those of several series overlap, so they are transparent and have an edge in their color `edge`."""
    base = {"field": "low"} if all("low" in row for row in rows) else {"datum": 0}
    ends = {"x2": {"field": "until"}, "y2": base, "description": {"field": "description"}}
    mark: Json = {"type": "rect", "stroke": "var(--ground)", "strokeWidth": 1}
    if edge is not None:
        mark |= {"fillOpacity": 0.4, "stroke": f"var(--{edge})", "strokeWidth": 2}
    return _layer(f"{name}_bars", rows, mark, {"x": x, "y": y, "color": color, **ends})


def _cells(rows: list[Json], name: str, x: Json, y: Json, share: float) -> Json:
    """Cells of one color, whose opacity says how large the values of the series are."""
    mark = {"type": "rect", "fill": f"var(--{SERIES[0]})", "fillOpacity": share * share, "clip": True}
    ends = {"x2": {"field": "until"}, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    return _layer(f"{name}_cells", rows, mark, {"x": x, **ends, "description": {"field": "description"}})


def _interval(rows: list[Json], name: str, color: Json, x: Json, y: Json, band: bool) -> Json:
    """The interval: a band along a line, or bars through points."""
    mark = {"type": "area", "opacity": 0.25} if band else {"type": "rule", "strokeWidth": 2}
    ends = {"y": {**y, "field": "low"}, "y2": {"field": "high"}}
    return _layer(f"{name}_interval", [r for r in rows if "low" in r], {**mark, "aria": False, "clip": True},
                  {"x": x, **ends, "color": color})  # fmt: skip


def _dots(rows: list[Json], name: str, color: Json, x: Json, y: Json, index: int, large: bool) -> Json:
    size = 70 if large else 8 if len(rows) > DOTS else 26
    shapes = {
        "condition": {"test": "datum.beyond", "value": "triangle-up"},
        "value": "diamond" if large else SHAPES[index % len(SHAPES)],
    }
    sizes = {"condition": {"test": "datum.beyond", "value": 90}, "value": size}
    shown = {"x": x, "y": y, "color": color, "shape": shapes, "size": sizes, "description": {"field": "description"}}
    return _layer(f"{name}_points", rows, {"type": "point", "filled": True, "opacity": 1}, shown)


def _row(chart: Chart, series: Series, point: Point) -> Json:
    """The data row of a point. A value beyond the axis is drawn at its edge, and its description says so."""
    row: Json = {"x": point.x, "y": point.y, "description": describe(chart, series, point)}
    top = chart.y.top
    if top is not None and point.y is not None and point.y > top:
        row |= {"y": top, "beyond": True, "description": f"{row['description']}; beyond the axis"}
    if point.until is not None:
        row["until"] = point.until
    if point.low is not None and point.high is not None:
        row |= {"low": point.low, "high": point.high if top is None else min(point.high, top)}
    return row


def _layer(name: str, rows: list[Json], mark: Json, encoding: Json) -> Json:
    return {"name": name, "data": {"values": rows}, "mark": mark, "encoding": encoding}


def _axis(field: str, axis: Axis) -> Json:
    unit = "" if axis.unit in ("number", "year", axis.title) else f" [{axis.unit}]"
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
    if axis.unit == "year":
        shown = {**shown, "labelExpr": MONTH}
    if axis.unit == "B":
        shown = {**shown, "labelExpr": BYTES}
    return {"field": field, "type": "quantitative", "title": axis.title + unit, "scale": scale, "axis": shown}


def _span(chart: Chart, span: Span, index: int) -> Json:
    rows = [{"x": span.first, "until": span.last}]
    x = {**_axis("x", chart.x), "field": "x"}
    mark = {"type": "rect", "fill": "var(--span)", "aria": False, "clip": True}
    return _layer(f"span_{index}", rows, mark, {"x": x, "x2": {"field": "until"}, "color": {"value": "var(--span)"}})


def _middle(chart: Chart) -> float:
    """The middle of the x values, logarithmic or linear. Labels of vertical rules beyond it are left of their rule."""
    places = [point.x for series in chart.series for point in series.points]
    places += [rule.x for rule in chart.rules if rule.x is not None]
    if not places:
        return math.inf
    low, high = min(places), max(places)
    return math.sqrt(low * high) if chart.x.log and low > 0 else (low + high) / 2


def _rule(rule: Rule, index: int, width: int, middle: float) -> tuple[list[Json], list[Json], Rule]:
    """A line and its label in a plot of this width, both with a halo to make them visible on top of other marks."""
    field, value = ("y", rule.y) if rule.y is not None else ("x", rule.x)
    where = {field: {"field": field, "type": "quantitative"}}
    beyond = rule.x is not None and rule.x > middle
    at: Json = {"y": 10 + 15 * (index % 3), "align": "right" if beyond else "left", "dx": -6 if beyond else 6}
    if field == "y":
        # Labels alternate between left and right, so that those of close lines do not overlap.
        at = {"dy": -7, **({"x": 6, "align": "left"} if index % 2 else {"x": width - 4, "align": "right"})}
    line = {"type": "rule", "aria": False}
    label = {"type": "text", "aria": False, "text": rule.name, "fontSize": 12, **at}
    halo, ink = {"color": {"value": "var(--ground)"}}, {"color": {"value": "var(--ink)"}}
    edge = {"stroke": {"value": "var(--ground)"}}
    rows = [{field: value}]
    lines = [
        _layer(f"halo_{index}", rows, {**line, "strokeWidth": 4, "opacity": 0.8}, where | halo),
        _layer(f"rule_{index}", rows, {**line, "strokeWidth": 1.5, "strokeDash": [4, 3]}, where | ink),
    ]
    name = [
        _layer(f"label_halo_{index}", rows, {**label, "strokeWidth": 4, "opacity": 0.8}, where | halo | edge),
        _layer(f"label_{index}", rows, label, where | ink),
    ]
    return lines, name, rule


def _colors(names: list[str], legend: bool) -> Json:
    colors = [f"var(--{SERIES[index % len(SERIES)]})" for index in range(len(names))]
    shown = {"orient": "bottom", "title": None, "labelLimit": 400, "columns": 3, "symbolType": "stroke",
             "symbolOpacity": 1, "symbolStrokeWidth": 3, "symbolSize": 200}  # fmt: skip
    return {
        "type": "nominal",
        "scale": {"domain": names, "range": colors},
        "legend": shown if legend else None,
    }  # fmt: skip


def _config() -> Json:
    axis = {"aria": False, "labelColor": "var(--soft)", "titleColor": "var(--ink)", "gridColor": "var(--grid)",
            "domainColor": "var(--line)", "tickColor": "var(--line)", "labelFontSize": 12, "titleFontSize": 13,
            "titleFontWeight": "normal", "labelOverlap": "greedy", "labelSeparation": 8}  # fmt: skip
    return {
        "font": "sans-serif",
        "axis": axis,
        "axisY": {"titlePadding": 12},
        "view": {"stroke": None},
        "legend": {"labelColor": "var(--ink)", "labelFontSize": 12},
    }


def values_table(chart: Chart) -> Table:
    """A folded table of all values of a chart: series (if there are several), x, y, interval and note."""
    several = len(chart.series) > 1
    points = [(series.name, point) for series in chart.series for point in series.points]
    ends = any(point.until is not None for _, point in points)
    interval = any(point.low is not None or point.high is not None for _, point in points)
    noted = any(point.note for _, point in points)
    numbered = chart.x.unit in ("number", "year")
    columns = [
        *([Column(title="series")] if several else []),
        Column(title=f"{chart.x.title} from" if ends else chart.x.title, unit="" if numbered else chart.x.unit),
        *([Column(title=f"{chart.x.title} to", unit=chart.x.unit)] if ends else []),
        Column(title=chart.y.title, unit=chart.y.unit, formula=chart.formula),
        *([Column(title="low", unit=chart.y.unit), Column(title="high", unit=chart.y.unit)] if interval else []),
        *([Column(title="note")] if noted else []),
    ]
    rows: list[tuple[Scalar, ...]] = []
    for name, point in points:
        x: Scalar = _format_x(chart.x, point.x) if numbered else point.x
        row: list[Scalar] = [name] if several else []
        row += [x, *([point.until] if ends else []), point.y]
        row += [point.low, point.high] if interval else []
        row += [point.note or ""] if noted else []
        rows.append(tuple(row))
    return Table(title=f"{chart.title}: values", columns=tuple(columns), rows=tuple(rows), folded=True)
