"""Faster, slower, or the same within noise: a gate with two locks, statistical and practical. Pure."""

from __future__ import annotations

from llmbx.measure.intervals import Change

from .values import Verdict


def judge(change: Change, tolerance: float, told: str | None = None) -> tuple[Verdict, str]:
    """The verdict on a change of the step time (or of what `told` tells of), and why.

    Slower (or faster) takes both: an interval that leaves no change out, and a change beyond `tolerance` (a fraction).
    """
    size, how = abs(change.fraction), "more" if change.fraction > 0 else "less"
    told = told or f"steps take {100 * size:.1f} % {how} time ({interval(change)})"
    allowed = f"the {100 * tolerance:g} % allowed"
    if change.significant and size > tolerance:
        return ("slower" if change.fraction > 0 else "faster"), f"{told}, more than {allowed}"
    if change.significant:
        return "same within noise", f"{told}: certain, but within {allowed}"
    if size > tolerance:
        return (
            "same within noise",
            f"{told}: more than {allowed}, but not certain; measure more steps or repeat the runs",
        )
    reach = max(abs(change.low), abs(change.high))
    if reach > tolerance:
        return "same within noise", f"no difference seen: {told}; one beyond {allowed} cannot be excluded"
    return "same within noise", f"no difference seen: {told}"


def interval(change: Change) -> str:
    """The interval in words: `95 % interval +1.2 to +3.4 %`."""
    if change.low == change.high:
        return "no interval known"
    return f"{100 * change.level:g} % interval {100 * change.low:+.1f} to {100 * change.high:+.1f} %"
