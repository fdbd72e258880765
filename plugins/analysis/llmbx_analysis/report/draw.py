"""Charts as SVG, drawn by Vega in vl-convert: no browser, no network."""

from __future__ import annotations

import re
from html import escape

from llmbx.errors import LlmbxError
from llmbx.model import Chart

from . import palette, vega

VERSION = "5.20"
"""The Vega-Lite that the specifications are written for."""


def for_page(chart: Chart, prefix: str) -> str:
    """An SVG to stand in a page: scaled by its width, coloured by the page's variables, ids begin with `prefix`."""
    svg = re.sub(r'(\bid="|url\(#)', rf"\g<1>{prefix}-", _svg(chart, legend=False))
    head = '<svg class="drawing" role="presentation"'
    return re.sub(r"^<svg [^>]*?(?= viewBox=)", head, svg, count=1)


def alone(chart: Chart) -> str:
    """An SVG file of its own: with its legend, on white."""
    svg = palette.painted(_svg(chart, legend=True), palette.LIGHT)
    said = f"<title>{escape(chart.title)}</title><desc>{escape(chart.summary)}</desc>"
    ground = f'<rect width="100%" height="100%" fill="{palette.LIGHT["ground"]}"/>'
    return svg.replace(">", f' role="img">{said}{ground}', 1) + "\n"


def _svg(chart: Chart, legend: bool) -> str:
    import vl_convert

    try:
        svg: str = vl_convert.vegalite_to_svg(vega.specification(chart, legend), vl_version=VERSION)
    except ValueError as error:
        raise LlmbxError(f"chart '{chart.name}' cannot be drawn: {str(error).splitlines()[0]}") from error
    return svg
