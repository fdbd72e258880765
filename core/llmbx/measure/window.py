"""Which steps are measured: `A-B` (inclusive, in the log's own numbers), `last`, or `auto`.

`auto` looks for the steady state. Of the steps that have a time, the first is dropped when there are others (it
compiles, allocates, fills caches); then every step until the time has settled: a step is settled when it and the
median of it and the two after it lie within a tolerance of the median of the later half. The tolerance is 5 % of that
median, or three scaled median absolute deviations of the later half where that is more, but never above 50 %. At most
half of the steps are taken for warm-up. One slow step in the middle stays in: it happened.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ..errors import UsageError
from ..model import Step
from ..model.result import Window
from . import stats

TOLERANCE = 0.05
"""A step has settled when its time is within this fraction of the steady time."""

LOOSEST = 0.5
"""However much the time scatters, a step that is farther off than this fraction has not settled."""

_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)")
_RIGHT = "expected A-B such as 35-44 (both counted, in the numbers that the log prints), last or auto"


def check(policy: str) -> str:
    """The policy in its plain form. Raises `UsageError` for anything that is not one."""
    text = policy.strip().lower()
    if text in ("last", "auto"):
        return text
    bounds = _RANGE.fullmatch(text)
    if bounds is None:
        raise UsageError(f"window '{policy}': {_RIGHT}")
    first, last = int(bounds[1]), int(bounds[2])
    if first > last:
        raise UsageError(f"window '{policy}': the first step comes after the last; did you mean {last}-{first}?")
    return f"{first}-{last}"


def choose(steps: Sequence[Step], policy: str, excluded: Collection[int] = ()) -> tuple[Window, list[Step]]:
    """The window of a policy over `steps`, and the steps in it that are measured.

    Steps whose number is in `excluded`, steps without a time, and those that the optimizer skipped are never measured.
    No step is measured when the steps do not reach the end of an `A-B` window; the window's `reason` says so. Raises
    `UsageError` for a bad policy.
    """
    policy = check(policy)
    fit = (s for s in steps if s.time_s is not None and not s.skipped and s.number not in excluded)
    usable = sorted(fit, key=lambda step: step.number)
    if policy == "last":
        return _window(policy, usable[-1:], excluded, "the last step that has a time")
    if policy == "auto":
        chosen, reason = _steady(usable)
        return _window(policy, chosen, excluded, reason)
    return _range(policy, steps, usable, excluded)


def _range(
    policy: str, steps: Sequence[Step], usable: list[Step], excluded: Collection[int]
) -> tuple[Window, list[Step]]:
    first, last = (int(bound) for bound in policy.split("-"))
    inside = tuple(sorted(number for number in excluded if first <= number <= last))
    reached = max((step.number for step in steps), default=None)
    chosen = [step for step in usable if first <= step.number <= last]
    reason = "as asked"
    if reached is None:
        reason = "the log holds no step"
    elif reached < last:
        chosen, reason = [], f"the log ends at step {reached}"
    elif not chosen:
        reason = "no step in it has a time"
    window = Window(first=first, last=last, policy=policy, excluded=inside, reason=reason)
    if chosen and window.span is not None and len(chosen) < window.span:
        window = window.replace(reason=f"as asked; only {len(chosen)} of its {window.span} steps could be measured")
    return window, chosen


def _window(policy: str, chosen: list[Step], excluded: Collection[int], reason: str) -> tuple[Window, list[Step]]:
    if not chosen:
        return Window(policy=policy, reason="no step has a time"), []
    first, last = chosen[0].number, chosen[-1].number
    inside = tuple(sorted(number for number in excluded if first <= number <= last))
    return Window(first=first, last=last, policy=policy, excluded=inside, reason=reason), chosen


def _steady(usable: list[Step]) -> tuple[list[Step], str]:
    if len(usable) < 2:
        return usable, "the only step that has a time"
    rest = usable[1:]
    times = [step.time_s or 0.0 for step in rest]
    half = len(times) // 2
    centre = stats.median(times[half:]) or 0.0
    scatter = 3 * (stats.deviation(times[half:]) or 0.0)
    tolerance = min(max(TOLERANCE * centre, scatter), LOOSEST * centre)
    warm = next((k for k in range(half) if _settled(times[k : k + 3], centre, tolerance)), None)
    share = f"{100 * tolerance / centre:.0f} % of {centre:.4g} s" if centre else "0 s"
    return rest[half if warm is None else warm :], _words(usable[0].number, warm, half, share)


def _settled(times: list[float], centre: float, tolerance: float) -> bool:
    middle = stats.median(times)
    return middle is not None and abs(times[0] - centre) <= tolerance and abs(middle - centre) <= tolerance


def _words(first: int, warm: int | None, half: int, share: str) -> str:
    if warm is None and half:
        return (
            f"step {first} and the {half} after it dropped as warm-up; the time had not settled before within {share}"
        )
    if not warm:
        return f"step {first} dropped as warm-up; after it the time was settled within {share}"
    more = "1 more step" if warm == 1 else f"{warm} more steps"
    return f"step {first} and {more} dropped as warm-up, until the time had settled within {share}"
