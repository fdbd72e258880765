"""A report as one HTML page that needs nothing else: style, script and drawings are in it, and nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.cli import words
from llmbx.model import Chart, Section
from llmbx.model.section import is_number

from . import draw, palette
from .build import Report
from .tables import behind

if TYPE_CHECKING:
    from markupsafe import Markup

PAGE = Path(__file__).parent / "page"
MOST_ROWS = 2000
"""Rows of one table; a page with more is slow to open."""


def render(report: Report) -> str:
    """The page. Everything that is not drawn by `draw` is escaped by the template."""
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
        behind=behind,
        words=words,
        is_number=is_number,
        series_colour=_series_colour,
        most_rows=MOST_ROWS,
    )


def write_sections(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write a page of sections alone, without a run: for a plugin's own verb. Raises `InfraError`."""
    from llmbx.files import write_atomic

    write_atomic(path, render(Report(title=title, verdicts=(), sections=tuple(sections), results=())))


def _drawing(section: Section, chart: Chart) -> Markup:
    from markupsafe import Markup

    return Markup(draw.for_page(chart, f"{section.name}-{chart.name}"))


def _series_colour(place: int) -> str:
    return palette.SERIES[place % len(palette.SERIES)]


def _hash(script: str) -> str:
    """The script's hash for the page's security policy: nothing else may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
