"""The verdict needs a change that is both significant and larger than the tolerance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.measure.intervals import Change
from llmbx_analysis.compare.verdict import decide_verdict


def change(fraction: float, low: float, high: float) -> Change:
    return Change(fraction=fraction, low=low, high=high, level=0.95, over="steps")


@pytest.mark.parametrize(
    ("fraction", "low", "high", "verdict", "words"),
    [
        (0.08, 0.06, 0.10, "slower", "steps take 8.0 % more time (95 % interval +6.0 to +10.0 %), more than the 5 %"),
        (-0.08, -0.10, -0.06, "faster", "steps take 8.0 % less time"),
        (0.02, 0.01, 0.03, "same within noise", "significant, but within the 5 % tolerance"),
        (0.08, -0.02, 0.19, "same within noise", "not significant; measure more steps or repeat the runs"),
        (0.01, -0.01, 0.03, "same within noise", "no significant difference"),
        (0.01, -0.08, 0.10, "same within noise", "one larger than the 5 % tolerance cannot be excluded"),
        (0.08, 0.08, 0.08, "slower", "no interval"),
    ],
)
def test_a_change_must_be_significant_and_larger_than_the_tolerance(
    fraction: float, low: float, high: float, verdict: str, words: str
) -> None:
    found, reason = decide_verdict(change(fraction, low, high), 0.05)
    assert found == verdict
    assert words in reason


fractions = st.floats(-0.5, 0.5)


@given(st.tuples(fractions, fractions, fractions).map(sorted), st.floats(0, 0.3))
def test_slower_and_faster_follow_from_interval_and_tolerance(ends: list[float], tolerance: float) -> None:
    low, middle, high = ends
    verdict, _ = decide_verdict(change(middle, low, high), tolerance)
    assert (verdict == "slower") == (low > 0 and middle > tolerance)
    assert (verdict == "faster") == (high < 0 and middle < -tolerance)
