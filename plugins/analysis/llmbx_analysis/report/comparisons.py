"""The section of comparisons: verdicts, metrics of both sides, and differences."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import Column, Scalar, Section, Table
from llmbx.api.verbs import format_number

from ..compare import NOTABLE, Comparison, Difference, Metric
from ..formatting import text as format_value
from .cells import Cell

NAMES = {
    "tokens_per_s": "throughput",
    "tokens_per_s_per_gpu": "throughput per GPU",
    "tflops_per_gpu": "compute per GPU",
    "mfu": "MFU",
    "days_per_1t_tokens": "time for 1T tokens",
    "first_step": "time to first step",
}
"""Names of the metrics of a comparison in a report."""

Names = tuple[str, str]
"""The names of side A and side B in headings."""

MOST = 12
"""Differences in the first table. The others are in a folded table."""


def section(cells: Sequence[Cell]) -> Section | None:
    """The section of the comparisons of all cells; None if there are none."""
    several = len(cells) > 1
    lines, warnings, tables = [], [], []
    for cell in cells:
        of = f"{cell.name}: " if several else ""
        lines += [f"{of}not compared: {why}" for why in cell.not_compared]
        for comparison in cell.comparisons:
            lines.append(f"{of}{comparison.verdict} compared with {_other(comparison)}: {comparison.reason}.")
            warnings += [f"{of}{line}" for line in _warnings(comparison)]
            tables += _tables(comparison, of)
    if not lines:
        return None
    return Section(
        name="against",
        title="Comparison with published figures and baseline",
        text=tuple(line[:1].upper() + line[1:] for line in lines),
        warnings=tuple(dict.fromkeys(warnings)),
        tables=tuple(tables),
    )


def _other(comparison: Comparison) -> str:
    if comparison.a.kind == "reference":
        return f"the published figure ({comparison.a.label})"
    runs = f" ({len(comparison.a.runs)} runs)" if len(comparison.a.runs) > 1 else ""
    return f"the baseline {comparison.a.label}{runs}"


def _warnings(comparison: Comparison) -> list[str]:
    """The warnings of a comparison. Those about the run itself (side B) are already in its own section."""
    forced = [f"compared although not comparable: {reason}" for reason in comparison.not_comparable_because]
    others = [line for line in comparison.warnings if not line.startswith("B: ")]
    return [*forced, *(f"{_other(comparison)}: {line[3:]}" if line.startswith("A: ") else line for line in others)]


def _tables(comparison: Comparison, of: str) -> list[Table]:
    a = "published" if comparison.a.kind == "reference" else "baseline"
    names = (a, "this run")
    compared = metrics_table(comparison, f"{of}metrics compared with {_other(comparison)}", names)
    return [compared, *difference_tables(comparison.differences, names, a == "published", of)]


def metrics_table(comparison: Comparison, title: str, names: Names) -> Table:
    """The metrics of both sides, with the names of the sides."""
    columns = (
        Column(title="figure"),
        Column(title=names[0]),
        Column(title=names[1]),
        Column(title="change", unit="%", formula=f"100 × ({names[1]} / {names[0]} - 1)"),
        Column(title="note"),
    )
    return Table(title=title, columns=columns, rows=tuple(_metric(metric) for metric in comparison.metrics))


def _metric(metric: Metric) -> tuple[Scalar, ...]:
    sides = [f"{format_number(value)} {metric.unit}" if value is not None else None for value in (metric.a, metric.b)]
    return NAMES.get(metric.name, metric.name.replace("_", " ")), *sides, metric.change_percent, metric.note or ""


def difference_tables(differences: Sequence[Difference], names: Names, recipe: bool, of: str = "") -> list[Table]:
    """The differences of both sides: the notable ones, and a folded table of the others.

    `recipe` is set if side A is the recipe of a published row.
    """
    notable = [d for d in differences if d.weight >= NOTABLE]
    shown = notable[:MOST]
    minor = [d for d in differences if d not in shown]
    title = "differences from the recipe" if recipe else "differences, likeliest cause first"
    tables = [_difference_table(f"{of}{title}", shown, names, False)] if shown else []
    return [*tables, *([_difference_table(f"{of}other differences", minor, names, True)] if minor else [])]


def _difference_table(title: str, differences: Sequence[Difference], names: Names, folded: bool) -> Table:
    rows = tuple((d.what, _side(d.a), _side(d.b), d.note or "") for d in differences)
    columns = (Column(title="setting"), Column(title=names[0]), Column(title=names[1]), Column(title="note"))
    return Table(title=title, columns=columns, rows=rows, folded=folded)


def _side(value: Scalar) -> str:
    return "unset" if value is None else format_value(value)
