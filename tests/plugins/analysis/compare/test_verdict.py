"""The gate with two locks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.measure.intervals import Change
from llmbx_analysis.compare.verdict import judge


def change(fraction: float, low: float, high: float) -> Change:
    return Change(fraction=fraction, low=low, high=high, level=0.95, over="steps")


@pytest.mark.parametrize(
    ("fraction", "low", "high", "verdict", "words"),
    [
        (0.08, 0.06, 0.10, "slower", "steps take 8.0 % more time (95 % interval +6.0 to +10.0 %), more than the 5 %"),
        (-0.08, -0.10, -0.06, "faster", "steps take 8.0 % less time"),
        (0.02, 0.01, 0.03, "same within noise", "certain, but within the 5 % allowed"),
        (0.08, -0.02, 0.19, "same within noise", "not certain; measure more steps or repeat the runs"),
        (0.01, -0.01, 0.03, "same within noise", "no difference seen"),
        (0.01, -0.08, 0.10, "same within noise", "one beyond the 5 % allowed cannot be excluded"),
        (0.08, 0.08, 0.08, "slower", "no interval known"),
    ],
)
def test_both_locks_must_open(fraction: float, low: float, high: float, verdict: str, words: str) -> None:
    said, reason = judge(change(fraction, low, high), 0.05)
    assert said == verdict
    assert words in reason


fractions = st.floats(-0.5, 0.5)


@given(st.tuples(fractions, fractions, fractions).map(sorted), st.floats(0, 0.3))
def test_slower_and_faster_are_never_said_without_reason(ends: list[float], tolerance: float) -> None:
    low, middle, high = ends
    verdict, _ = judge(change(middle, low, high), tolerance)
    assert (verdict == "slower") == (low > 0 and middle > tolerance)
    assert (verdict == "faster") == (high < 0 and middle < -tolerance)
