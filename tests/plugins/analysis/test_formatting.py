"""Numbers and quantities formatted for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx_analysis import formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0, "0"), (5.43119, "5.431"), (386155.4, "386,155"), (0.0331, "0.0331"), (1.234e-7, "1.23e-07"),
     (12, "12"), (2048, "2,048"), (float("nan"), "not finite"), (-4.5, "-4.5"), (1e21, "1e+21")],
)  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert formatting.number(value) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [(5.43119, 5.41, 5.45, "5.431"), (5.43119, 5.0, 5.9, "5.43"), (386155.0, 370000.0, 400000.0, "386,155"),
     (5.43119, None, None, "5.431"), (1.0, 1.0, 1.0, "1")],
)  # fmt: skip
def test_a_number_has_the_digits_that_its_interval_supports(
    value: float, low: float | None, high: float | None, text: str
) -> None:
    assert formatting.short(value, low, high) == text


@given(st.floats(allow_nan=True, allow_infinity=True) | st.integers())
def test_any_number_can_be_formatted(value: float) -> None:
    text = formatting.number(value)
    assert text
    if math.isfinite(value) and abs(value) < 1e15:
        assert math.isclose(float(text.replace(",", "")), value, rel_tol=6e-3, abs_tol=1e-300)


def test_unknown_is_a_word_and_never_0() -> None:
    assert formatting.text(None) == "unknown"
    assert formatting.quantity(None, "s") == "unknown"
    assert formatting.quantity(0.0, "s") == "0 s"


@pytest.mark.parametrize(
    ("text", "slug"), [("Grok1 314b, 8 × h100", "grok1-314b-8-h100"), ("×", "part"), ("a/../b", "a-b")]
)
def test_slugs_are_safe_as_file_names(text: str, slug: str) -> None:
    assert formatting.slug(text) == slug
