"""The table of the values of a chart."""

from __future__ import annotations

from llmbx.api import Chart, Column, Scalar, Table
from llmbx.api.verbs import format_number


def values_table(chart: Chart) -> Table:
    """A folded table of all values of a chart: series (if there are several), x, y, interval and note."""
    several = len(chart.series) > 1
    points = [(series.name, point) for series in chart.series for point in series.points]
    ends = any(point.until is not None for _, point in points)
    interval = any(point.low is not None or point.high is not None for _, point in points)
    noted = any(point.note for _, point in points)
    numbered = chart.x.unit == "number"
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
        x: Scalar = format_number(point.x) if numbered else point.x
        row: list[Scalar] = [name] if several else []
        row += [x, *([point.until] if ends else []), point.y]
        row += [point.low, point.high] if interval else []
        row += [point.note or ""] if noted else []
        rows.append(tuple(row))
    return Table(title=f"{chart.title}: values", columns=tuple(columns), rows=tuple(rows), folded=True)
