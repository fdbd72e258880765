"""Contrast ratios of WCAG 2.2 in light and dark mode: text 4.5:1, graphics 3:1."""

from __future__ import annotations

from itertools import product

import pytest

from llmbx_analysis.report.palette import DARK, LIGHT, SERIES

GROUNDS = ("ground", "panel")
TEXT = ("ink", "soft", "link", "good", "bad", "warn")


def luminance(color: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_in_wcag() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(colors: dict[str, str]) -> None:
    pairs = [*product(TEXT, GROUNDS), ("ink", "raised"), ("ground", "ink"), ("ink", "span"), ("soft", "span")]
    assert [(a, b) for a, b in pairs if contrast(colors[a], colors[b]) < 4.5] == []


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_and_edges_can_be_seen(colors: dict[str, str]) -> None:
    pairs = [*product(SERIES, ("ground", "span")), ("line", "ground"), ("line", "panel")]
    assert [(a, b) for a, b in pairs if contrast(colors[a], colors[b]) < 3] == []


def test_both_have_the_same_names() -> None:
    assert LIGHT.keys() == DARK.keys()
