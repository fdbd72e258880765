"""What a cell was held against, as a section: verdict, both sides' figures, what may explain a difference. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.cli.words import number, text
from llmbx.model import Column, Scalar, Section, Table

from ..compare import NOTABLE, Comparison, Difference, Metric
from .subjects import Cell

NAMES = {
    "tokens_per_s": "throughput",
    "tokens_per_s_per_gpu": "throughput per GPU",
    "tflops_per_gpu": "compute per GPU",
    "mfu": "MFU",
    "days_per_1t_tokens": "time for 1T tokens",
    "first_step": "time to first step",
}
"""A comparison's metrics as a report calls its figures."""

MOST = 12
"""Differences that are shown at once; the rest is folded."""


def section(cells: Sequence[Cell]) -> Section | None:
    """The comparisons of all cells; None where nothing was held against anything."""
    several = len(cells) > 1
    said, warnings, tables = [], [], []
    for cell in cells:
        of = f"{cell.name}: " if several else ""
        said += [f"{of}not compared: {why}" for why in cell.unheld]
        for found in cell.against:
            said.append(f"{of}{found.verdict} against {_other(found)}: {found.reason}.")
            warnings += [f"{of}{line}" for line in _doubts(found)]
            tables += _tables(found, of)
    if not said:
        return None
    return Section(
        name="against",
        title="Against published figures and baseline",
        text=tuple(line[:1].upper() + line[1:] for line in said),
        warnings=tuple(dict.fromkeys(warnings)),
        tables=tuple(tables),
    )


def _other(found: Comparison) -> str:
    if found.a.kind == "reference":
        return f"the published figure ({found.a.label})"
    runs = f" ({len(found.a.runs)} runs)" if len(found.a.runs) > 1 else ""
    return f"the baseline {found.a.label}{runs}"


def _doubts(found: Comparison) -> list[str]:
    """What is to be known of a comparison. What stands out in this run's own steps (side B) its figures tell."""
    forced = [f"compared although {reason}" for reason in found.not_comparable_because]
    others = [line for line in found.warnings if not line.startswith("B: ")]
    return [*forced, *(f"{_other(found)}: {line[3:]}" if line.startswith("A: ") else line for line in others)]


def _tables(found: Comparison, of: str) -> list[Table]:
    a = "published" if found.a.kind == "reference" else "baseline"
    rows = tuple(_metric(metric) for metric in found.metrics)
    columns = (
        Column(title="figure"),
        Column(title=a),
        Column(title="this run"),
        Column(title="change", unit="%", formula="100 × (this run / the other - 1)"),
        Column(title="note"),
    )
    compared = Table(title=f"{of}figures against {_other(found)}", columns=columns, rows=rows)
    return [compared, *_differences(found.differences, a, of)]


def _metric(metric: Metric) -> tuple[Scalar, ...]:
    sides = [f"{number(value)} {metric.unit}" if value is not None else None for value in (metric.a, metric.b)]
    return NAMES.get(metric.name, metric.name.replace("_", " ")), *sides, metric.change_percent, metric.note or ""


def _differences(found: Sequence[Difference], a: str, of: str) -> list[Table]:
    notable = [d for d in found if d.weight >= NOTABLE]
    shown = notable[:MOST]
    rest = [d for d in found if d not in shown]
    title = "departures from the recipe" if a == "published" else "what differs, likeliest cause first"
    tables = [_difference_table(f"{of}{title}", shown, a, False)] if shown else []
    return [*tables, *([_difference_table(f"{of}what else differs", rest, a, True)] if rest else [])]


def _difference_table(title: str, found: Sequence[Difference], a: str, folded: bool) -> Table:
    rows = tuple((d.what, _side(d.a), _side(d.b), d.note or "") for d in found)
    columns = (Column(title="what"), Column(title=a), Column(title="this run"), Column(title="note"))
    return Table(title=title, columns=columns, rows=rows, folded=folded)


def _side(value: Scalar) -> str:
    return "unset" if value is None else text(value)
