"""The whole interval decides: beyond the tolerance, within it, or neither."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx_analysis.compare.verdict import decide_verdict
from llmbx_verdict.statistics.intervals import Change


def change(fraction: float, low: float, high: float) -> Change:
    return Change(fraction=fraction, low=low, high=high, level=0.95, over="steps")


@pytest.mark.parametrize(
    ("fraction", "low", "high", "verdict", "words"),
    [
        (0.08, 0.06, 0.10, "slower", "steps take 8.0 % more time (95 % interval +6.0 to +10.0 %), beyond the 5 %"),
        (-0.08, -0.10, -0.06, "faster", "steps take 8.0 % less time"),
        (0.02, 0.01, 0.03, "equivalent", "steps take 2.0 % more time (95 % interval +1.0 to +3.0 %), within the 5 %"),
        (0.01, -0.01, 0.03, "equivalent", "within the 5 % tolerance"),
        (0.0012, 0.0008, 0.0016, "equivalent", "(95 % interval +0.08 to +0.16 %)"),
        (0.06, 0.04, 0.08, "inconclusive", "significant, but the interval lies neither within nor beyond the 5 %"),
        (0.08, -0.02, 0.19, "inconclusive", "no significant difference, but the interval is not within the 5 %"),
        (0.01, -0.08, 0.10, "inconclusive", "no significant difference, but the interval is not within the 5 %"),
        (0.08, 0.08, 0.08, "slower", "no interval"),
    ],
)
def test_the_interval_must_lie_beyond_or_within_the_tolerance(
    fraction: float, low: float, high: float, verdict: str, words: str
) -> None:
    found, reason = decide_verdict(change(fraction, low, high), 0.05)
    assert found == verdict
    assert words in reason


fractions = st.floats(-0.5, 0.5)


@given(st.tuples(fractions, fractions, fractions).map(sorted), st.floats(0, 0.3))
def test_a_verdict_never_claims_more_than_the_interval(ends: list[float], tolerance: float) -> None:
    low, middle, high = ends
    verdict, _ = decide_verdict(change(middle, low, high), tolerance)
    assert (verdict == "slower") == (low > tolerance)
    assert (verdict == "faster") == (high < -tolerance)
    assert (verdict == "equivalent") == (-tolerance < low and high < tolerance)
