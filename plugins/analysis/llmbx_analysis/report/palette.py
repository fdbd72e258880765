"""The colors of a report for light and dark mode. The page and its charts use them by name.

Text has a contrast ratio of at least 4.5:1 with its three background colors, marks of charts have at least 3:1 (WCAG
2.2, AA). tests/plugins/analysis/report/test_palette.py checks this.
"""

from __future__ import annotations

import re

LIGHT = {
    "ground": "#ffffff",
    "panel": "#f4f6f8",
    "raised": "#e8edf2",
    "line": "#7d8894",
    "grid": "#dfe4e9",
    "ink": "#14202b",
    "soft": "#465563",
    "link": "#0b5394",
    "good": "#07603c",
    "bad": "#a8201a",
    "warn": "#7a4a00",
    "span": "#cfe3f7",
    "c1": "#0b5fa5",
    "c2": "#b04a05",
    "c3": "#067647",
    "c4": "#7a3db8",
    "c5": "#b42361",
    "c6": "#4d5b6a",
}

DARK = {
    "ground": "#11161c",
    "panel": "#1a2129",
    "raised": "#242d37",
    "line": "#7f8c99",
    "grid": "#2c3641",
    "ink": "#eaf0f6",
    "soft": "#b3c0cc",
    "link": "#8cc4ff",
    "good": "#6fdba6",
    "bad": "#ff9d94",
    "warn": "#f5bf6b",
    "span": "#20384f",
    "c1": "#6cb6ff",
    "c2": "#f6a15c",
    "c3": "#5fd39a",
    "c4": "#c9a2ff",
    "c5": "#ff8fb8",
    "c6": "#a9b6c3",
}

SERIES = ("c1", "c2", "c3", "c4", "c5", "c6")
"""The colors of the series of a chart, in order. Further series reuse them with other shapes and dashes."""


def css(colors: dict[str, str]) -> str:
    """Declarations of CSS variables for the colors."""
    return " ".join(f"--{name}: {value};" for name, value in colors.items())


def with_colors(svg: str, colors: dict[str, str]) -> str:
    """Replace the CSS variables in an SVG by colors, for use outside of a page."""
    return re.sub(r"var\(--(\w+)\)", lambda variable: colors[variable[1]], svg)
