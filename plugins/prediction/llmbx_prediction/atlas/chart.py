"""Draw published figures: tokens/s per GPU over the date of the release, one series a GPU type and dtype."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from llmbx.api import Axis, Chart, Column, Point, Rule, Section, Series, Table

from .listing import Listing

TITLES = (("gpu_type", ""), ("gpus", "GPUs"), ("dtype", ""), ("layout", ""), ("gbs", "samples"),
          ("step_time_s", "s"), ("tokens_per_s_per_gpu", "tokens/s"), ("tflops_per_gpu", "TFLOP/s"),
          ("organization", ""), ("release", ""), ("source", ""), ("place", ""))  # fmt: skip


def section(listing: Listing) -> Section:
    """One section with the chart and the table of the model's own rows."""
    own = [row for row in listing.rows if row["model"] == listing.model]
    series = _series(own)
    charts = (_chart(listing, series),) if series else ()
    return Section(
        name="atlas", title=f"Published figures of {listing.model}", text=tuple(listing.lines()), tables=(_table(own),),
        charts=charts,
    )  # fmt: skip


def _series(rows: list[dict[str, Any]]) -> tuple[Series, ...]:
    lines: dict[str, list[Point]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: float(row["when"])):
        if row["tokens_per_s_per_gpu"] is not None:
            name = " ".join(part for part in (row["gpu_type"], row["dtype"], row["task"]) if part)
            note = f"{row['gpus']} GPUs, {row['layout'] or 'no layout'}, {row['source']} {row['release']}"
            lines[name].append(Point(x=row["when"], y=row["tokens_per_s_per_gpu"], note=note))
    return tuple(Series(name=name, points=tuple(points), marks="points") for name, points in lines.items())


def _chart(listing: Listing, series: tuple[Series, ...]) -> Chart:
    mine = listing.standing
    return Chart(
        name="published", title="Tokens/s per GPU by release", x=Axis(title="release", unit="year"),
        y=Axis(title="tokens/s per GPU", unit="tokens/s", zero=True), series=series,
        summary=f"{sum(len(line.points) for line in series)} published figures of {listing.model}.",
        rules=(Rule(name="mine", y=mine.tokens_per_s_per_gpu),) if mine else (),
    )  # fmt: skip


def _table(rows: list[dict[str, Any]]) -> Table:
    columns = tuple(Column(title=name.replace("_", " "), unit=unit) for name, unit in TITLES)
    return Table(title="Figures", columns=columns, rows=tuple(tuple(row[name] for name, _ in TITLES) for row in rows))
