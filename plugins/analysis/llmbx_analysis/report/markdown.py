"""Render a report as Markdown: verdicts, figures with their formulas, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from llmbx.api import Chart, Column, Fact, Section, Table

from ..formatting import figure as format_figure
from ..formatting import text as format_value
from .build import Report
from .vega import values_table

FEW = 20
"""Most values of a chart that are listed as a table."""

Drawings = Mapping[tuple[str, str], str]
"""Paths of the drawings by the names of section and chart."""


def render(report: Report, drawings: Drawings | None = None) -> str:
    """Render the report as GitHub-flavored Markdown. Folded tables are left out."""
    lines = [f"# {escape(report.title)}", ""]
    if report.overview is not None and report.overview.verdict is not None:
        lines += [f"**{escape(report.overview.verdict.word)}**: {escape(report.overview.verdict.text)}", ""]
    for verdict in report.verdicts:
        of = f" ({escape(verdict.cell)})" if len(report.verdicts) > 1 else ""
        lines += [f"**{escape(verdict.word.capitalize())}**{of}: {escape(verdict.text)}", ""]
        lines += [*(f"- {escape(reason)}" for reason in verdict.reasons), *([""] if verdict.reasons else [])]
    lines += [*(f"> {escape(note)}" for note in report.notes), *([""] if report.notes else [])]
    for section in report.sections:
        lines += _section(section, drawings or {})
    lines.append(f"*Report by llmbx {report.llmbx_version}.*")
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Escape text for Markdown and HTML. Line breaks become spaces."""
    flat = " ".join(text.split())
    flat = re.sub(r"([\\`*\[\]<>|~&])", r"\\\1", flat)
    flat = re.sub(r"(?<!\w)_|_(?!\w)", r"\_", flat)
    return re.sub(r"^([#+\-]|\d+[.)])(?=\s)", r"\\\1", flat)


def _section(section: Section, drawings: Drawings) -> Iterator[str]:
    yield from (f"## {escape(section.title)}", "")
    for line in section.warnings:
        yield from (f"> **Warning:** {escape(line)}", "")
    for line in section.text:
        yield from (escape(line), "")
    if section.facts:
        yield from _table(_figures(section.facts))
    for chart in section.charts:
        yield from _chart(chart, drawings.get((section.name, chart.name)))
    for table in section.tables:
        if not table.folded:
            yield from (f"### {escape(table.title[:1].upper() + table.title[1:])}", "")
            yield from _table(table)


def _figures(figures: Sequence[Fact]) -> Table:
    rows = tuple(
        (f.name, format_figure(f), "; ".join(part for part in (f.formula, f.of, f.note) if part)) for f in figures
    )
    columns = (Column(title="figure"), Column(title="value"), Column(title="formula"))
    return Table(title="figures", columns=columns, rows=rows)


def _chart(chart: Chart, drawing: str | None) -> Iterator[str]:
    yield from (f"### {escape(chart.title)}", "")
    if drawing is not None:
        yield from (f"![{escape(chart.summary)}](<{drawing}>)", "")
    yield from (escape(chart.summary), "")
    table = values_table(chart)
    if len(table.rows) <= FEW:
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    heads = [f"{c.title} [{c.unit}]" if c.unit else c.title for c in table.columns]
    yield "| " + " | ".join(map(escape, heads)) + " |"
    yield "|" + "|".join("---:" if c.unit else "---" for c in table.columns) + "|"
    for row in table.rows:
        yield "| " + " | ".join(escape(format_value(value)) for value in row) + " |"
    yield ""
