"""Decide whether a change is equivalent, faster, slower or inconclusive."""

from __future__ import annotations

from llmbx_verdict.statistics import intervals

from .comparison import Verdict


def decide_verdict(change: intervals.Change, tolerance: float, text: str | None = None) -> tuple[Verdict, str]:
    """The verdict on a change of the step time, and its reason. `text` describes the change of another metric.

    The whole interval decides: beyond the tolerance (a fraction) it is slower or faster, within the tolerance it is
    equivalent (two one-sided tests), else inconclusive.
    """
    size, how = abs(change.fraction), "more" if change.fraction > 0 else "less"
    text = text or f"steps take {100 * size:.1f} % {how} time ({interval(change)})"
    allowed = f"the {100 * tolerance:g} % tolerance"
    if change.low > tolerance:
        return "slower", f"{text}, beyond {allowed}"
    if change.high < -tolerance:
        return "faster", f"{text}, beyond {allowed}"
    if -tolerance < change.low and change.high < tolerance:
        return "equivalent", f"{text}, within {allowed}"
    if change.significant:
        return "inconclusive", f"{text}: significant, but the interval lies neither within nor beyond {allowed}"
    return "inconclusive", f"{text}: no significant difference, but the interval is not within {allowed}"


def interval(change: intervals.Change) -> str:
    """Format the interval: `95 % interval +1.2 to +3.4 %`."""
    if change.low == change.high:
        return "no interval"
    digits = 1 if change.high - change.low >= 0.002 else 2
    return f"{100 * change.level:g} % interval {100 * change.low:+.{digits}f} to {100 * change.high:+.{digits}f} %"
