"""Choose the measured steps: `A-B` (inclusive, in the log's own numbers), `last`, or `auto`.

`auto` detects the steady state. Of the steps with a time, it drops the first unless it is the only one (it compiles,
allocates and fills caches), then every step until the step time is steady: a step is steady if both its time and the
median of it and the next two steps lie within a tolerance of the median of the second half. The tolerance is 5 % of
that median, or three scaled median absolute deviations of the second half if that is more, but at most 50 %. At most
half of the steps are dropped as warm-up. A single slow step in the middle is kept, as it is part of the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ..errors import UsageError
from ..model import Step
from ..model.result import Window
from . import stats

TOLERANCE = 0.05
"""Relative tolerance of a steady step's time."""

MAX_TOLERANCE = 0.5
"""Upper limit of the relative tolerance, however much the times scatter."""

_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)")
_RIGHT = "expected A-B such as 35-44 (inclusive, in the log's step numbers), last or auto"


def check(policy: str) -> str:
    """The policy in normalized form. Raises `UsageError` if it is invalid."""
    text = policy.strip().lower()
    if text in ("last", "auto"):
        return text
    bounds = _RANGE.fullmatch(text)
    if bounds is None:
        raise UsageError(f"window '{policy}': {_RIGHT}")
    first, last = int(bounds[1]), int(bounds[2])
    if first > last:
        raise UsageError(f"window '{policy}': the first step is after the last; did you mean {last}-{first}?")
    return f"{first}-{last}"


def choose(steps: Sequence[Step], policy: str, excluded: Collection[int] = ()) -> tuple[Window, list[Step]]:
    """The window of a policy over `steps`, and the measured steps in it.

    Steps whose number is in `excluded`, steps without a time, and steps skipped by the optimizer are never measured. If
    the log ends before the end of an `A-B` window, no step is measured and the window's `reason` says so. Raises
    `UsageError` for an invalid policy.
    """
    policy = check(policy)
    fit = (s for s in steps if s.time_s is not None and not s.skipped and s.number not in excluded)
    usable = sorted(fit, key=lambda step: step.number)
    if policy == "last":
        return _window(policy, usable[-1:], excluded, "the last step with a time")
    if policy == "auto":
        chosen, reason = _steady_steps(usable)
        return _window(policy, chosen, excluded, reason)
    return _range(policy, steps, usable, excluded)


def _range(
    policy: str, steps: Sequence[Step], usable: list[Step], excluded: Collection[int]
) -> tuple[Window, list[Step]]:
    first, last = (int(bound) for bound in policy.split("-"))
    inside = tuple(sorted(number for number in excluded if first <= number <= last))
    reached = max((step.number for step in steps), default=None)
    chosen = [step for step in usable if first <= step.number <= last]
    reason = "as requested"
    if reached is None:
        reason = "the log contains no steps"
    elif reached < last:
        chosen, reason = [], f"the log ends at step {reached}"
    elif not chosen:
        reason = "no step in it has a time"
    window = Window(first=first, last=last, policy=policy, excluded=inside, reason=reason)
    if chosen and window.span is not None and len(chosen) < window.span:
        window = window.replace(reason=f"as requested; only {len(chosen)} of {window.span} steps could be measured")
    return window, chosen


def _window(policy: str, chosen: list[Step], excluded: Collection[int], reason: str) -> tuple[Window, list[Step]]:
    if not chosen:
        return Window(policy=policy, reason="no step has a time"), []
    first, last = chosen[0].number, chosen[-1].number
    inside = tuple(sorted(number for number in excluded if first <= number <= last))
    return Window(first=first, last=last, policy=policy, excluded=inside, reason=reason), chosen


def _steady_steps(usable: list[Step]) -> tuple[list[Step], str]:
    if len(usable) < 2:
        return usable, "the only step with a time"
    rest = usable[1:]
    times = [step.time_s or 0.0 for step in rest]
    half = len(times) // 2
    center = stats.median(times[half:]) or 0.0
    scatter = 3 * (stats.deviation(times[half:]) or 0.0)
    tolerance = min(max(TOLERANCE * center, scatter), MAX_TOLERANCE * center)
    warm = next((k for k in range(half) if _is_steady(times[k : k + 3], center, tolerance)), None)
    share = f"{100 * tolerance / center:.0f} % of {center:.4g} s" if center else "0 s"
    return rest[half if warm is None else warm :], _reason(usable[0].number, warm, half, share)


def _is_steady(times: list[float], center: float, tolerance: float) -> bool:
    middle = stats.median(times)
    return middle is not None and abs(times[0] - center) <= tolerance and abs(middle - center) <= tolerance


def _reason(first: int, warm: int | None, half: int, share: str) -> str:
    if warm is None and half:
        return f"step {first} and the next {half} dropped as warm-up; step times before were not steady within {share}"
    if not warm:
        return f"step {first} dropped as warm-up; step times are steady within {share} after it"
    more = "1 more step" if warm == 1 else f"{warm} more steps"
    return f"step {first} and {more} dropped as warm-up; step times are steady within {share} after them"
