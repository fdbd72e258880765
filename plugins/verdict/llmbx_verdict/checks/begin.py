"""Is it this run's log, from its beginning on?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from llmbx.api import Answer, Check, Evidence, Finding, NotPossible, median_of

BETWEEN_HOURS = (-9.5, -3.5, -2.5, 3.5, 4.5, 5.5, 5.75, 6.5, 8.75, 9.5, 10.5, 12.75, 13.75)
ZONES_S = tuple(3600.0 * hours for hours in (*range(-12, 15), *BETWEEN_HOURS))
"""The differences of the world's time zones from UTC, with those of summer time."""

CLOCKS_S = 60.0
"""Seconds by which the clocks of two machines may differ."""

WRONG_CLOCK_S = 300.0
"""A clock that is wrong by more would be noticed elsewhere: the log is more likely an older one."""

DAYS = 3 * 86400.0
"""A stamp without its year is that of the year in which it is nearest to the run."""


def first_lines(evidence: Evidence) -> Answer:
    """The log begins after the first step."""
    if evidence.spec is None or evidence.first is None:
        return NotPossible(reason="the number of the first step is not known")
    if evidence.resumed:
        return NotPossible(reason="the training continues from a checkpoint")
    first = evidence.steps[0].number
    if first < evidence.first + evidence.interval:
        return None
    count = first - evidence.first
    return f"the log begins with step {first}: the lines of {count} step{'s' * (count > 1)} before it are missing"


def other_start(evidence: Evidence) -> Answer:
    """The training does not begin with untrained weights and the first sample."""
    spec, first = evidence.spec, evidence.first
    if spec is None or spec.checkpoint.load is not None or spec.checkpoint.save:  # an attempt may load its own
        return NotPossible(reason="it is not known whether the training was to begin with untrained weights")
    if evidence.resumed:
        return "a checkpoint was loaded, which was not asked for"
    counted = next((step for step in evidence.steps if step.consumed_samples is not None), None)
    if counted is None or first is None:
        return NotPossible(reason="the log does not print the consumed samples")
    expected = spec.global_batch_size * (counted.number - first + 1)
    if abs((counted.consumed_samples or 0) - expected) <= spec.global_batch_size:
        return None
    return f"step {counted.number} has consumed {counted.consumed_samples} samples, not {expected}"


def another_run(evidence: Evidence) -> Answer:
    """The times of the lines are not those of the run."""
    printed = {step.number: step.printed_at for step in evidence.steps if step.printed_at is not None}
    if evidence.started_at is None or not printed:
        return NotPossible(reason="the start of the run or the times of the lines are not known")
    begin = evidence.started_at
    first, last = (_nearest(stamp, begin) for stamp in (min(printed.values()), max(printed.values())))
    end = begin + (evidence.lasted_s or 0.0)
    farthest = max(ZONES_S) + CLOCKS_S
    if last < begin - farthest or first > end + farthest:
        when = datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%d %H:%M")
        ran = datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d %H:%M")
        text = f"the lines of the log are of {when}, and the run began at {ran} UTC"
        return (Finding(rule="other-run", problem=text, fix="look for the log of this run", warning=False),)
    off = [_nearest(printed[a.number], begin) - a.at for a in evidence.arrivals if a.number in printed]
    apart = median_of([min((difference - zone for zone in ZONES_S), key=abs) for difference in off])
    if apart is None or len(off) < 3 or abs(apart) <= CLOCKS_S:
        return None
    text = f"the times of the log's lines are {abs(apart):.0f} s off those at which they were read, in any time zone"
    older = abs(apart) > WRONG_CLOCK_S
    fix = "look for the log of this run" if older else "compare the clocks of the nodes"
    return (Finding(rule="other-run", problem=text, fix=fix, warning=not older),)


def _nearest(stamp: float, begin: float) -> float:
    """The stamp in the year in which it is nearest to the run: many lines have none."""
    if abs(stamp - begin) < DAYS:
        return stamp
    return min((*_in_years(stamp, begin), stamp), key=lambda candidate: abs(candidate - begin))


def _in_years(stamp: float, begin: float) -> Iterator[float]:
    moment, year = datetime.fromtimestamp(stamp, UTC), datetime.fromtimestamp(begin, UTC).year
    for candidate in (year - 1, year, year + 1):
        with suppress(ValueError):  # the 29th of February
            yield moment.replace(year=candidate).timestamp()


CHECKS = (
    Check(
        "first-lines", "The number of the first step in the log, and that of the framework's first step.",
        "The log begins later: it was rotated, or its first lines were lost, with what they state.",
        "Look for the first part of the log.", "warning", first_lines,
    ),
    Check(
        "other-start", "The consumed samples of the first step, and whether a checkpoint was loaded.",
        "A checkpoint was loaded that was not asked for, or the samples do not begin with the first one.",
        "Look for checkpoints of earlier trainings in the folders of the run.", "warning", other_start,
    ),
    Check(
        "other-run", "The times on the steps' lines, and when the run began and its lines were read, in any time zone.",
        "The log is that of another run; or a clock is wrong, if they differ by at most five minutes (a warning). "
        "A log that is older by hours, to the minute, looks like that of another time zone.",
        "Look for the log of this run; compare the clocks of the nodes.", "invalid", another_run,
    ),
)  # fmt: skip
