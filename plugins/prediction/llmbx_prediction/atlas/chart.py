"""Draw published figures: tokens/s per GPU over the date of the release, one series a GPU type and dtype."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from llmbx.api import Axis, Chart, Column, Point, Rule, Scalar, Section, Series, Table

from .listing import Listing

COLUMNS = (
    Column(title="GPUs"),
    Column(title="layout"),
    Column(title="batch", unit="samples"),
    Column(title="step time", unit="s"),
    Column(title="per GPU", unit="tokens/s"),
    Column(title="per GPU", unit="TFLOP/s"),
    Column(title="source"),
)
"""The columns of the page, few enough for its width; `atlas show --format csv` has all."""


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
    return Table(title="Figures", columns=COLUMNS, rows=tuple(map(_cells, rows)))


def _cells(row: dict[str, Any]) -> tuple[Scalar, ...]:
    place = f"line {row['place']}" if str(row["place"]).isdigit() else row["place"]
    return (
        f"{row['gpus']} x {row['gpu_type']} {row['dtype']}",
        row["layout"] or None,
        row["gbs"],
        row["step_time_s"],
        row["tokens_per_s_per_gpu"],
        row["tflops_per_gpu"],
        f"{row['organization']}: {row['source']} {row['release']}, {place}",
    )
