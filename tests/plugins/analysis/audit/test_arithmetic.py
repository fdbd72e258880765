"""Printed equations are parsed, and only plain arithmetic is evaluated."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx_analysis.audit.arithmetic import equations, evaluate, figure

HOLDS = [
    "8192 * 128 / 12.39 = 84631",
    "1e12 / 84631 / 86400 = 136.76 days",
    "MFU = 128 * 4.74E+14 / 12.39 / 8 / 1979E+12 = 30.93%",
    "MFU =  1636.8 / 4900 = 33.40%",
    "attention flops = 12 * 32 * 4096^2 * (1 + 8/32 + 8192/4096) = 20,937,965,568",
    "model flops = 8192 * (20,937,965,568 + 33,822,867,456 + 3,152,019,456) = 4.74E+14",
    "sum: 1 + 2 = 3 = 3.0",
]


@pytest.mark.parametrize("text", HOLDS)
def test_correct_equations_hold(text: str) -> None:
    (equation, *_) = equations(text)
    assert equation.holds, equation


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("model flops = 8192 * (36238786560 + 40265318400 + 6219525120) = 678,702,806,466,560", 677671977615360),
        ("247390116864000 + 593736279244800 + 50665495805952 = 891792891914752", 891791891914752),
        ("8192 * 1024 / 7.781 = 1077749", 1078088.677547873),
        ("1 + 1 = 3 apples", 2),
        ("2 * 3 = 6.1", 6),
        ("1 / 4 = 26 %", 0.25),
    ],
)
def test_wrong_equations_do_not_hold(text: str, value: float) -> None:
    (equation,) = equations(text)
    assert not equation.holds
    assert equation.value == pytest.approx(value, rel=1e-9)


def test_a_chain_of_equations_is_split() -> None:
    found = equations("1 + 1 = 2 = 2.0 = 3")
    assert [e.holds for e in found] == [True, True, False]


def test_the_last_digit_may_be_rounded_or_truncated() -> None:
    assert [equations(f"2 / 3 = {text}")[0].holds for text in ("0.66", "0.67", "0.65", "0.6667", "0.668")] == [
        True, True, False, True, False,
    ]  # fmt: skip


def test_a_formula_replaces_text_that_cannot_be_parsed() -> None:
    text = "Embedding = 12 * (202048 / (2 * 3) = 404096"
    assert equations(text) == []
    (equation,) = equations(text, "12 * (202048 / (2 * 3))")
    assert equation.holds


def test_figures() -> None:
    assert figure("30.93%") == (pytest.approx(0.3093), pytest.approx(1e-4))
    assert figure("1.82E+15 ") == (1.82e15, pytest.approx(1e13))
    assert figure("678,702,806,466,560") == (678702806466560, 1)
    assert figure("49 TFLOPS") == (49, 1)
    assert [figure(text) for text in ("", "TFLOPS", "1 2", "1,2", "nan", "1e999", "..")] == [None] * 7


@pytest.mark.parametrize(
    "text", ["__import__('os')", "a + 1", "1 + ", "9**9**9", "1/0", "(-8) ^ 0.5", "[1]", "1 if 1 else 2", "0x10", "('"]
)
def test_only_plain_arithmetic_is_computed(text: str) -> None:
    assert evaluate(text) is None


@given(st.text())
def test_any_text_is_parsed_without_a_crash(text: str) -> None:
    value = evaluate(text)
    assert value is None or math.isfinite(value)
    printed = figure(text)
    assert printed is None or all(map(math.isfinite, printed))
    assert isinstance(equations(text), list)


@pytest.mark.parametrize("text", ["1E400", "-1e999", "1e308*10", "1e300^2"])
def test_values_beyond_the_range_of_a_float_are_none(text: str) -> None:
    assert evaluate(text) is None and equations(f"{text} = 5") == []


@given(st.text(alphabet="0123456789.eE+-*/()^=, %", max_size=60))
def test_any_arithmetic_like_text_is_parsed_without_a_crash(text: str) -> None:
    assert isinstance(equations(text), list)
    value = evaluate(text)
    assert value is None or math.isfinite(value)


numbers = st.integers(min_value=0, max_value=10**6).map(float) | st.floats(min_value=0.001, max_value=1e9)
expressions = st.recursive(
    numbers.map(repr),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    max_leaves=8,
)


@given(expressions)
def test_results_agree_with_python(text: str) -> None:
    try:
        expected = eval(text)
    except ZeroDivisionError:
        expected = None
    assert evaluate(text) == expected
