"""Draw charts as SVG with vl-convert, which needs neither a browser nor network access."""

from __future__ import annotations

import re
from html import escape

from llmbx.api import Chart, LlmbxError

from . import palette, vega

VERSION = "5.20"
"""The Vega-Lite version of the specifications."""


def for_page(chart: Chart, prefix: str, narrow: bool = False) -> str:
    """An SVG to embed in a page: scales with its width, uses the CSS variables of the page, ids begin with `prefix`.

    The prefix comes from names that plugins choose, so only letters, digits, `_` and `-` of it are used.
    `narrow` draws for telephones: the text keeps its size, the plot is smaller.
    """
    safe = re.sub(r"[^\w-]", "_", prefix)
    svg = re.sub(r'(\bid="|url\(#)', rf"\g<1>{safe}-", _svg(chart, size=vega.NARROW if narrow else vega.WIDE))
    head = f'<svg class="drawing {"narrow" if narrow else "wide"}" role="presentation"'
    return re.sub(r"^<svg [^>]*?(?= viewBox=)", head, svg, count=1)


def standalone(chart: Chart) -> str:
    """A standalone SVG file with a legend and a white background."""
    svg = palette.with_colors(_svg(chart, legend=True), palette.LIGHT)
    description = f"<title>{escape(chart.title)}</title><desc>{escape(chart.summary)}</desc>"
    ground = f'<rect width="100%" height="100%" fill="{palette.LIGHT["ground"]}"/>'
    return svg.replace(">", f' role="img">{description}{ground}', 1) + "\n"


def _svg(chart: Chart, legend: bool = False, size: tuple[int, int] = vega.WIDE) -> str:
    import vl_convert

    try:
        svg: str = vl_convert.vegalite_to_svg(vega.specification(chart, legend, size), vl_version=VERSION)
    except ValueError as error:
        raise LlmbxError(f"chart '{chart.name}' cannot be drawn: {str(error).splitlines()[0]}") from error
    return svg
