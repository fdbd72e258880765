"""Decide whether a change is faster, slower or the same within noise."""

from __future__ import annotations

from llmbx.api.verbs import intervals

from .comparison import Verdict


def decide_verdict(change: intervals.Change, tolerance: float, text: str | None = None) -> tuple[Verdict, str]:
    """The verdict on a change of the step time, and its reason. `text` describes the change of another metric.

    The verdict is slower or faster if the interval excludes zero and the change exceeds `tolerance` (a fraction).
    """
    size, how = abs(change.fraction), "more" if change.fraction > 0 else "less"
    text = text or f"steps take {100 * size:.1f} % {how} time ({interval(change)})"
    allowed = f"the {100 * tolerance:g} % tolerance"
    if change.significant and size > tolerance:
        return ("slower" if change.fraction > 0 else "faster"), f"{text}, more than {allowed}"
    if change.significant:
        return "same within noise", f"{text}: significant, but within {allowed}"
    if size > tolerance:
        return (
            "same within noise",
            f"{text}: more than {allowed}, but not significant; measure more steps or repeat the runs",
        )
    if max(abs(change.low), abs(change.high)) > tolerance:
        return "same within noise", f"no significant difference: {text}; one larger than {allowed} cannot be excluded"
    return "same within noise", f"no significant difference: {text}"


def interval(change: intervals.Change) -> str:
    """Format the interval: `95 % interval +1.2 to +3.4 %`."""
    if change.low == change.high:
        return "no interval"
    return f"{100 * change.level:g} % interval {100 * change.low:+.1f} to {100 * change.high:+.1f} %"
