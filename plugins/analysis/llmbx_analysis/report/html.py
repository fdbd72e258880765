"""Render a report as a self-contained HTML page. Style, script and drawings are embedded."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import Chart, Section, is_number
from llmbx.api.verbs import format_number

from ..formatting import short as format_short
from ..formatting import text as format_value
from . import draw, palette
from .build import Report
from .vega import values_table
from .verdicts import grouped

if TYPE_CHECKING:
    from markupsafe import Markup

PAGE = Path(__file__).parent / "page"
MOST_NAMES = 8
"""Most configurations that are named with a verdict that they share. The table of configurations has all."""

MOST_WARNINGS = 4
"""Most warnings of a section that are open. The others are folded."""

PIECE = 16
"""Most letters of a word that are kept on one line in a table."""

PIECES = re.compile(rf"[^/_:=,@.-]{{0,{PIECE - 1}}}(?:[/_:=,@.-]|.)", re.DOTALL)
"""The pieces of a long word: each ends with a separator or has `PIECE` letters."""

MOST_ROWS = 2000
"""Most rows of one table. Pages with more are slow to open."""


def render(report: Report) -> str:
    """Render the page. The template escapes everything except the drawings."""
    import jinja2
    from markupsafe import Markup

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    script = (PAGE / "script.js").read_text(encoding="utf-8")
    return env.get_template("report.html.j2").render(
        report=report,
        style=Markup((PAGE / "style.css").read_text(encoding="utf-8")),
        light=Markup(palette.css(palette.LIGHT)),
        dark=Markup(palette.css(palette.DARK)),
        script=Markup(script),
        script_hash=_hash(script),
        drawing=_drawing,
        breakable=_breakable,
        verdicts=grouped(report.verdicts),
        values_table=values_table,
        format_value=format_value,
        format_number=format_number,
        format_short=format_short,
        unknown="unknown",
        is_number=is_number,
        series_color=_series_color,
        most_rows=MOST_ROWS,
        most_names=MOST_NAMES,
        most_warnings=MOST_WARNINGS,
    )


def write_sections(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write a page of sections without runs, for commands of plugins.

    Raises `InfraError` if the file cannot be written.
    """
    from llmbx.api import write_atomic

    write_atomic(path, render(Report(title=title, verdicts=(), sections=tuple(sections), results=())))


def _drawing(section: Section, chart: Chart) -> Markup:
    from markupsafe import Markup

    name = f"{section.name}-{chart.name}"
    return Markup(draw.for_page(chart, name) + draw.for_page(chart, f"{name}-narrow", narrow=True))


def _breakable(text: str) -> Markup:
    """The escaped text; ids, paths and digests in it can be broken into lines after separators or `PIECE` letters."""
    from markupsafe import Markup, escape

    return Markup(" ").join(
        Markup("<wbr>").join(map(escape, PIECES.findall(word))) if len(word) > PIECE else escape(word)
        for word in text.split(" ")
    )


def _series_color(index: int) -> str:
    return palette.SERIES[index % len(palette.SERIES)]


def _hash(script: str) -> str:
    """The hash of the script for the content security policy, which allows no other script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
