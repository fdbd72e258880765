"""Time that is in no step: evaluation, checkpoints, compilation, waiting for data; and times beyond the clock."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from llmbx.api import Answer, Check, Event, Evidence, Finding, NotPossible, Step, Value, is_number, median_of

from .change import period_of
from .timing import stamps_of, too_long, too_short

EDGE = 3
"""Number of lines at each end whose median is the time of that end: single lines are printed late."""

NOTABLE = 0.05
"""Share of the wall clock outside of the steps from which on it is a warning."""

LARGEST = 0.2
"""Share from which on the step time does not tell how fast the training is."""

BEYOND = 0.04
"""Share by which the steps may claim more than the clock; more is a warning."""

FAR_BEYOND = 0.07
"""Share by which the claim makes the step time incomparable; from 10 % on it is invalid (`clock-short`)."""

LEAST_S = 10.0
"""Seconds of steps below which lines that are written together hide what single steps took."""

SLACK_S = 0.01
SMALL_SLACK_S = 0.1
"""Seconds that a step's line takes to be printed: usually, and on a CPU."""

ROUNDED = 8
"""So many step times in a row are not whole seconds (halves, tenths) by chance."""
UNITS = (1.0, 0.5, 0.1)
COARSE = 0.01
"""A unit of the times that matters, as a share of the longest."""

EXACT = 3e-4
"""Share of a step time below which the last printed digit shows how times scatter: that of the steadiest known runs is
0.02 %, with which ten times are alike in 2 of 1,000 runs."""

EQUAL = 10
"""So many equal times are not measured."""

LONG_S = 100.0
"""Times rounded to whole seconds are exact enough from here on."""

NAMES = {
    "checkpoint_saved": "checkpoint",
    "checkpoint_loaded": "loaded checkpoint",
    "validation": "evaluation",
    "compilation": "compilation",
    "graph_capture": "capture of CUDA graphs",
    "garbage_collection": "garbage collection",
}
"""What the log says of the time outside of the steps, by kind of event."""


class Outside(Value, frozen=True):
    """Wall clock from one step to another: seconds in the steps, and outside of them.

    `outside_s` is negative if the steps claim more than passed; `doubt_s` is what the reading of the
    lines leaves open, `usual_s` the median of the seconds between two steps.
    """

    first: int
    last: int
    inside_s: float
    outside_s: float
    doubt_s: float
    usual_s: float

    def share(self, seconds: float) -> float:
        """What share of the wall clock these seconds outside are."""
        whole = self.inside_s + seconds
        return seconds / whole if whole > 0 else 0.0

    @property
    def surely(self) -> float:
        """The share that is outside for certain; negative: the share of the claim beyond the clock."""
        if self.outside_s >= 0:
            return self.share(max(0.0, self.outside_s - self.doubt_s))
        return -max(0.0, -self.outside_s - self.doubt_s) / self.inside_s


def outside_of(evidence: Evidence, steps: Sequence[Step]) -> Outside | NotPossible:
    """The time outside of the steps between the first and the last of them that has a stamp."""
    stamps = stamps_of(evidence, steps)
    if isinstance(stamps, NotPossible):
        return stamps
    passed = 0.0
    lines: list[tuple[int, float, float, float]] = []
    for step in steps:
        if step.time_s is None and lines:
            return NotPossible(reason=f"step {step.number} has no time")
        passed += (step.time_s or 0.0) * step.covers if lines else 0.0
        if step.number in stamps:
            lines.append((step.number, passed, *stamps[step.number]))
    if len(lines) < 2 * EDGE:
        return NotPossible(reason=f"fewer than {2 * EDGE} steps have a time and a stamp")
    begin, end = lines[:EDGE], lines[-EDGE:]
    between = [step for step in steps if begin[0][0] < step.number <= end[-1][0]]
    if sum(step.covers for step in between) < end[-1][0] - begin[0][0]:
        return NotPossible(reason="steps between the first and the last stamp are missing")
    late = [(earliest + latest) / 2 - claimed for _, claimed, earliest, latest in lines]
    outside = (median_of(late[-EDGE:]) or 0.0) - (median_of(late[:EDGE]) or 0.0)
    widths = [latest - earliest for _, _, earliest, latest in (*begin, *end)]
    return Outside(
        first=begin[0][0],
        last=end[-1][0],
        inside_s=end[-2][1] - begin[1][1],
        outside_s=outside,
        doubt_s=(median_of(widths) or 0.0) / 2,
        usual_s=max(0.0, median_of([after - before for before, after in pairwise(late)]) or 0.0),
    )


def outside(evidence: Evidence) -> Answer:
    """Much of the wall clock is in no step."""
    spans = [*_spans(evidence)]
    known = [span for span in spans if isinstance(span, Outside)]
    if not known:
        return spans[0] if spans and isinstance(spans[0], NotPossible) else None
    slack = SMALL_SLACK_S if _is_small(evidence) else SLACK_S
    worst = max(known, key=lambda span: _less(span, slack, evidence).surely)
    share = _less(worst, slack, evidence).surely
    if share < NOTABLE or isinstance(too_short(evidence), str):  # then clock-long says so
        return None
    where = f"between the steps {worst.first} and {worst.last}"
    text = f"{100 * worst.share(worst.outside_s):.0f} % of the time {where} is in no step ({worst.outside_s:.1f} s)"
    named = _named(evidence)
    problem = text + (f"; the log has {named}" if named else "")
    fix = "look for checkpoints, evaluation, compilation and waiting for data there"
    return (Finding(rule="outside-steps", problem=problem, fix=fix, warning=share < LARGEST),)


def beyond(evidence: Evidence) -> Answer:
    """The steps claim some percent more than the clock."""
    known = [span for span in _spans(evidence) if isinstance(span, Outside) and span.inside_s >= LEAST_S]
    if not known:
        return NotPossible(reason=f"the wall clock over {LEAST_S:g} s of steps is not known")
    share = -min(span.surely for span in known)
    if share < BEYOND or isinstance(too_long(evidence), str):  # then clock-short says so
        return None
    worst = min(known, key=lambda span: span.surely)
    problem = (
        f"the steps {worst.first} to {worst.last} claim {worst.inside_s:.1f} s, "
        f"{-worst.outside_s:.1f} s more than passed"
    )
    fix = "check the clock of the node, and what the printed time covers"
    return (Finding(rule="clock-beyond", problem=problem, fix=fix, warning=share < FAR_BEYOND),)


def rounded(evidence: Evidence) -> Answer:
    """The times of the steps are whole seconds, halves or tenths."""
    window = evidence.figures.window if evidence.figures is not None else None
    measured = [s for s in evidence.steps if s.time_s is not None and (window is None or window.holds(s.number))]
    times = [step.time_s or 0.0 for step in measured]
    if len(times) < ROUNDED or max(times) > LONG_S:
        return None
    units = [unit for unit in UNITS if all(math.isclose(time, unit * round(time / unit)) for time in times)]
    if not units or units[0] < COARSE * max(times):
        return None
    error = 50 * units[0] / max(times)
    unit = "whole seconds" if units[0] == 1 else f"multiples of {units[0]:g} s"
    return f"the times of {len(times)} steps are {unit}: the mean may be wrong by {error:.0f} %"


def equal(evidence: Evidence) -> Answer:
    """The times of the steps are the same to the last digit."""
    window = evidence.figures.window if evidence.figures is not None else None
    times = [step.time_s for step in evidence.steps if step.time_s and (window is None or window.holds(step.number))]
    period = period_of(times)
    if len(times) < EQUAL or (len(set(times)) > 1 and not period):
        return None
    digits = max(_decimals(step.time_s) for step in evidence.steps if step.time_s)
    if 10.0**-digits > EXACT * times[0]:
        return NotPossible(reason="the times of the steps are printed with too few digits")
    if period:
        return f"the times of {period} steps come again and again, in all of {len(times)} steps"
    return f"the times of {len(times)} steps are all {times[0]:.{digits}f} s: no machine is that steady"


def _decimals(time_s: float) -> int:
    """The number of decimals of a time, as far as it is printed; zeros at the end are not known."""
    _, _, decimals = f"{time_s:.9f}".rstrip("0").partition(".")
    return len(decimals)


def seconds_outside(evidence: Evidence) -> float | None:
    """The seconds outside of the steps between the first and the last step; None if they are not known."""
    span = outside_of(evidence, evidence.steps)
    return max(0.0, span.outside_s) if isinstance(span, Outside) else None


def _spans(evidence: Evidence) -> Iterator[Outside | NotPossible]:
    """The whole run, and the window. Profiles take time outside of the window."""
    profiled = evidence.spec is not None and evidence.spec.profile is not None
    if not profiled:
        yield outside_of(evidence, evidence.steps)
    window = evidence.figures.window if evidence.figures is not None else None
    if window is not None and window.span:
        yield outside_of(evidence, [step for step in evidence.steps if window.holds(step.number)])


def _less(span: Outside, slack: float, evidence: Evidence) -> Outside:
    count = sum(step.covers for step in evidence.steps if span.first < step.number <= span.last)
    shorter: Outside = span.replace(doubt_s=span.doubt_s + min(slack, span.usual_s) * count)
    return shorter


def _is_small(evidence: Evidence) -> bool:
    return evidence.spec is not None and (evidence.spec.mini or evidence.spec.gpu_type == "cpu")


def _named(evidence: Evidence) -> str:
    """What takes time outside of the steps and is in the log between them, with the seconds if it says so."""
    between = evidence.events[len(evidence.before) : len(evidence.events) - len(evidence.after)]
    named = [event for event in between if event.kind in NAMES]
    counts = Counter(NAMES[event.kind] for event in named)
    seconds = {name: [_seconds(event) for event in named if NAMES[event.kind] == name] for name in counts}
    return ", ".join(f"{count} x {name}{_taken(seconds[name])}" for name, count in counts.items())


def _seconds(event: Event) -> float | None:
    value = event.facts.get("seconds")
    return float(value) if is_number(value) else None


def _taken(seconds: Sequence[float | None]) -> str:
    """The sum of the seconds, if all are known."""
    known = [value for value in seconds if value is not None]
    return f" ({sum(known):.1f} s)" if known and len(known) == len(seconds) else ""


CHECKS = (
    Check(
        "outside-steps", "The wall clock from the first step to the last, and over the window, and the steps' times.",
        "At least 5 % of the time is in no step (a warning), or 20 % (not comparable): the step time is not what the "
        "training takes. `timing.outside_steps_s` has the seconds; the finding has what the log says that they were.",
        "Look for checkpoints, evaluation, compilation and waiting for data.", "not comparable", outside,
    ),
    Check(
        "clock-beyond", "The same.",
        "The steps claim at least 4 % more time than passed (a warning), or 7 % (not comparable).",
        "Check the clock of the node, and what the printed time covers.", "not comparable", beyond,
    ),
    Check(
        "rounded-times", f"The times of the window's steps, from {ROUNDED} on and below {LONG_S:g} s.",
        "All of them are multiples of 1, 0.5 or 0.1 s, which is 1 % of one or more: the mean is not better known "
        "than that.",
        "Print more digits.", "warning", rounded,
    ),
    Check(
        "equal-times", f"The times of the window's steps, from {EQUAL} on, if the last digit is at most 0.03 % of one.",
        "All of them are the same to the last digit, or a few come again and again: they are not measured.",
        "Look at what the program prints as the time of a step.", "warning", equal,
    ),
)  # fmt: skip
