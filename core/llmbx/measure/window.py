"""Choose the measured steps: `A-B` (inclusive, in the log's own numbers), `last`, or `auto`.

`auto` drops the warm-up: the first third of the steps with a time (at least one step, at most `MOST_DROPPED`), whatever
their times are, and then the steps whose running median of three is above every running median of the second half. At
most half of the steps after the first are dropped. The first third cannot prefer fast or slow steps, and the rest is
dropped only as part of a warm-up that began with the run: single slow steps, and fast steps before the run is
throttled, are measured. With a rule that keeps what is within 5 % of the later steps, the tail of a slow warm-up stays
(up to +1.4 % in the mean); MSER drops slow steps of the run itself (-2 %). benchmarks/window.py compares the rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from ..errors import UsageError
from ..model.result import Window
from ..model.step import Step
from . import stats

SHARE = 3
"""One of this number of steps is dropped in any case."""

MARGIN = 0.005
"""How much slower than the second half a step of the warm-up is, at least; less hardly moves the mean."""

MOST_DROPPED = 100
"""Most steps that are dropped whatever their times are; no known framework warms up for longer."""

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
    hidden = set(excluded)
    fit = (
        s for s in steps if s.time_s is not None and not s.skipped and (not hidden or hidden.isdisjoint(_covered(s)))
    )
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
    numbers = sorted(step.number for step in steps)
    interval = log_interval(numbers)
    chosen = [step for step in usable if first <= _covered(step)[0] and step.number <= last]
    reason = f"as requested; {_printed(interval, chosen)}" if interval > 1 else "as requested"
    if not numbers:
        reason = "the log contains no steps"
    elif numbers[-1] + interval <= last:
        chosen, reason = [], f"the log ends at step {numbers[-1]}"
    elif not chosen:
        reason = (
            "no step in it has a time" if interval == 1 else f"it has no whole interval; {_printed(interval, usable)}"
        )
    window = Window(first=first, last=last, policy=policy, excluded=inside, reason=reason)
    if chosen and interval == 1 and window.span is not None and len(chosen) < window.span:
        window = window.replace(reason=f"as requested; only {len(chosen)} of {window.span} steps could be measured")
    return window, chosen


def _covered(step: Step) -> range:
    """The numbers of the steps of which this one's time is the mean."""
    return range(step.number - step.covers + 1, step.number + 1)


def _printed(interval: int, steps: Sequence[Step]) -> str:
    """What the lines of a log with an interval have."""
    if any(step.covers > 1 for step in steps):
        return f"each line has the mean of {interval} steps"
    return f"each line has the time of one step of {interval}"


def _window(policy: str, chosen: list[Step], excluded: Collection[int], reason: str) -> tuple[Window, list[Step]]:
    if not chosen:
        return Window(policy=policy, reason="no step has a time"), []
    first, last = _covered(chosen[0])[0], chosen[-1].number
    inside = tuple(sorted(number for number in excluded if first <= number <= last))
    return Window(first=first, last=last, policy=policy, excluded=inside, reason=reason), chosen


def _steady_steps(usable: list[Step]) -> tuple[list[Step], str]:
    if len(usable) < 2:
        return usable, "the only step with a time"
    times = [step.time_s or 0.0 for step in usable]
    fixed = max(1, min(len(usable) // SHARE, MOST_DROPPED))
    slow = 1 + warm_steps(times[1:], fixed)
    return usable[max(fixed, slow) :], _reason(usable, fixed, slow)


def warm_steps(times: Sequence[float], least: int) -> int:
    """The number of steps at the beginning, at most half, that are slower than all of the second half by `MARGIN`.

    A step counts by the median of it and the next two, which hides single slow or fast steps, also the last one of the
    warm-up. That one is looked at by itself if there are at least `least` before it, because then it is one.
    """
    half = len(times) // 2
    medians = [stats.median(times[k : k + 3]) or 0.0 for k in range(len(times))]
    limit = (1 + MARGIN) * max(medians[half : max(len(times) - 2, half + 1)], default=0.0)
    count = next((k for k in range(half) if medians[k] <= limit), half)
    return count + 1 if least <= count < half and times[count] > limit else count


def _reason(usable: Sequence[Step], fixed: int, slow: int) -> str:
    count = max(fixed, slow)
    first, last = usable[0].number, usable[count - 1].number
    dropped = f"steps {first}-{last} dropped as warm-up" if count > 1 else f"step {first} dropped as warm-up"
    if slow <= fixed:
        return dropped
    if slow - 1 < (len(usable) - 1) // 2:
        return f"{dropped}: slower than all steps of the second half"
    return f"{dropped}: slower than the second half up to its beginning, so the warm-up may not have ended"


ON_INTERVAL = 0.8
"""Least share of the lines that belong to a multiple of the interval; the first may be another step."""

ROUND = 5
"""An interval that two lines alone show is a multiple of this number; others may be lines that were lost."""


def log_interval(numbers: Sequence[int]) -> int:
    """The interval of a log with steps of these numbers, in order; 1 if it has the line of every step.

    A framework prints the steps whose number, counted from 0 or 1, is a multiple of the interval.
    """
    gaps = Counter(after - before for before, after in pairwise(numbers) if after > before)
    for gap, _ in gaps.most_common(3):
        if gap == 1 or _fits(gap, numbers):
            return gap
    return 1


def _fits(gap: int, numbers: Sequence[int]) -> bool:
    if len(numbers) < 3 and (gap % ROUND or numbers[0] % gap not in (0, gap - 1)):
        return False
    rest, count = Counter(number % gap for number in numbers[1:]).most_common(1)[0]
    return rest in (0, gap - 1) and count >= ON_INTERVAL * (len(numbers) - 1)


def with_covers(steps: Sequence[Step], begun: int) -> list[Step]:
    """The steps of a log whose lines have means since the line before, each with the number of steps that it covers.

    `begun` is the number of the last step before the training began. After a lost line, a mean covers one interval.
    """
    interval = log_interval([step.number for step in steps])
    if interval == 1:
        return [*steps]
    before = [min(begun, steps[0].number - 1), *(step.number for step in steps)]
    return [step.replace(covers=min(interval, step.number - last)) for last, step in zip(before, steps, strict=False)]


def begun_after(loaded: Iterable[int], first: int | None, steps: Sequence[Step]) -> int:
    """The last step before the training began: that of a loaded checkpoint, else the one before the first."""
    earlier = [number for number in loaded if steps and number < steps[0].number]
    return max(earlier, default=(first or 0) - 1)
