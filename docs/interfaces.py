"""The parts of docs/interfaces.md that are made from the code: members of objects, columns, metrics and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from marks import PAGES, filled

from llmbx.model import Result
from llmbx_analysis.compare.comparison import Comparison
from llmbx_export.measures import CREATED, INFO, INFO_LABELS, LABELS, MEASURES
from llmbx_history.columns import COLUMNS, SHORT
from llmbx_history.entry import Entry
from llmbx_history.frames import PANDAS
from llmbx_sweep.summary import Row


def interfaces() -> str:
    """The page with these parts between their marks."""
    text = (PAGES / "interfaces.md").read_text()
    for name, kind in (("result", Result), ("run", Entry), ("cell", Row), ("comparison", Comparison)):
        text = filled(text, f"members of a {name}", f"{_names(kind.__struct_fields__)}.")
    text = filled(text, "columns", _table("column | kind | unit | meaning | short name | pandas", _columns()))
    text = filled(text, "metrics", _table("metric | column | factor | meaning", _metrics()))
    labels = f"Labels of every sample: {_names(LABELS)}. `{INFO}` is 1, with these and {_names(INFO_LABELS)}."
    return filled(text, "labels", labels)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _columns() -> Iterator[tuple[str, ...]]:
    for name, (kind, unit, meaning) in COLUMNS.items():
        short = _names(short for short, column in SHORT.items() if column == name)
        yield f"`{name}`", kind, unit, meaning, short, f"`{PANDAS[kind]}`"


def _metrics() -> Iterator[tuple[str, ...]]:
    for measure in (CREATED, *MEASURES):
        yield f"`{measure.name}`", f"`{measure.column}`", f"{measure.factor:g}", measure.help


def _table(head: str, rows: Iterator[tuple[str, ...]]) -> str:
    rule = "---|" * (head.count("|") + 1)
    return "\n".join([f"| {head} |", f"|{rule}", *(f"| {' | '.join(row)} |" for row in rows)])
