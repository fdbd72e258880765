"""Can the times be true? Peak, wall clock, numbers of the steps, writers and restarts."""

from __future__ import annotations

from ..logs.restarts import RESTARTED
from ..model import Step
from .base import NO_SPEC, Answer, Check, Evidence, NotPossible

HIGH = 0.8
"""No published training reaches 80 % of the dense peak."""

SHARE = 0.8
"""Least share of the window's steps that must be measured."""

FASTER = 1.1
"""Largest ratio of the steps' times to the wall clock; the clocks of two ranks and the rounding of the log differ."""

HIDDEN = 0.5
"""Least ratio of the steps' times to the wall clock: the rest is evaluation, checkpoints and waiting for data."""

SLACK_S = 2.0
"""Seconds by which two stamps may be wrong: logs print whole seconds, and the follower polls."""

STEP_SLACK_S = 0.1
"""Seconds per step that a small machine needs to print it."""

FEW = 4
"""A window of fewer steps says nothing about the clock."""

PHASE = "phase"
"""The fact of a `restarted` event that begins a phase of the launch, which is no restart."""


def over_peak(evidence: Evidence) -> Answer:
    """The MFU is above 100 %."""
    value = _mfu(evidence)
    if isinstance(value, NotPossible):
        return value
    return f"the MFU is {100 * value:.0f} % of the peak: no GPU is that fast" if value > 1 else None


def near_peak(evidence: Evidence) -> Answer:
    """The MFU is above 80 %."""
    value = _mfu(evidence)
    if isinstance(value, NotPossible):
        return value
    return f"the MFU is {100 * value:.0f} %, more than any published training" if HIGH < value <= 1 else None


def fast_step(evidence: Evidence) -> Answer:
    """A measured step is shorter than the peak allows."""
    value = _mfu(evidence)
    if isinstance(value, NotPossible):
        return value
    assert evidence.figures is not None
    time = evidence.figures.step_time_s
    if not time.mean or not time.min or value > 1:
        return None  # beyond the peak as a whole: over-peak says so
    least = value * time.mean  # at an MFU of 1
    if time.min >= least:
        return None
    return f"a step of {time.min:.4g} s is measured, but at the peak a step takes {least:.4g} s"


def share(evidence: Evidence) -> Answer:
    """Too few steps of the window are measured."""
    if evidence.figures is None:
        return NotPossible(reason="nothing was measured")
    if evidence.spec is not None and evidence.spec.profile is not None:
        return NotPossible(reason="profiled steps are not measured")
    window, measured = evidence.figures.window, evidence.figures.steps_measured
    if not measured or not window.span or measured >= SHARE * window.span:
        return None
    return f"only {measured} of the {window.span} steps of the window {window.first}-{window.last} are measured"


def gap(evidence: Evidence) -> Answer:
    """Numbers of steps are missing in the log."""
    numbers = [step.number for step in evidence.steps]
    missing = sorted(set(range(numbers[0], numbers[-1] + 1)) - set(numbers))
    return f"{len(missing)} steps are missing in the log (first: {missing[0]})" if missing else None


def twice(evidence: Evidence) -> Answer:
    """The log has one step twice, with different values."""
    numbers = _conflicts(evidence)
    return f"the log has step {numbers[0]} twice, with different values" if len(numbers) == 1 else None


def two_writers(evidence: Evidence) -> Answer:
    """The log has several steps twice, with different values."""
    numbers = _conflicts(evidence)
    if len(numbers) < 2:
        return None
    what = f"{len(numbers)} steps twice with different values (first: {numbers[0]})"
    return f"the log has {what}: two programs write into it"


def in_order(evidence: Evidence) -> Answer:
    """The lines are out of order, and the steps were sorted by their numbers."""
    if evidence.order != "sorted":
        return None
    return "the lines of the steps are not in their order; the steps were sorted by their numbers"


def mixed(evidence: Evidence) -> Answer:
    """The lines are out of order, and the numbers of the steps repeat."""
    if evidence.order != "mixed":
        return None
    return "the lines of the steps are not in their order and their numbers repeat: nothing can be measured"


def restarted(evidence: Evidence) -> Answer:
    """The training restarted inside one attempt."""
    if evidence.spec is None:
        return NO_SPEC
    count = _restarts(evidence)
    times = "once" if count == 1 else f"{count} times"
    return f"the training restarted {times} inside one attempt" if count else None


def several_trainings(evidence: Evidence) -> Answer:
    """A log without a run has several trainings."""
    if evidence.spec is not None or evidence.order != "printed":
        return None
    count = _restarts(evidence)
    return f"the log has {count + 1} trainings, one after the other; the last one is measured" if count else None


def _restarts(evidence: Evidence) -> int:
    events = (*evidence.earlier, *evidence.events)
    return sum(event.kind == RESTARTED and PHASE not in event.facts for event in events)


def too_long(evidence: Evidence) -> Answer:
    """The steps claim more time than passed."""
    clock = _clock(evidence)
    if isinstance(clock, NotPossible):
        return clock
    claimed, passed, count = clock
    if claimed <= FASTER * passed + SLACK_S:
        return None
    return f"{count} steps claim {claimed:.1f} s, but only {passed:.1f} s passed between their lines"


def too_short(evidence: Evidence) -> Answer:
    """Much more time passed than the steps claim."""
    clock = _clock(evidence)
    if isinstance(clock, NotPossible):
        return clock
    claimed, passed, count = clock
    if claimed >= HIDDEN * (passed - SLACK_S - STEP_SLACK_S * count):
        return None
    return f"{count} steps claim {claimed:.1f} s, but {passed:.1f} s passed between their lines"


def _mfu(evidence: Evidence) -> float | NotPossible:
    if evidence.spec is None or evidence.figures is None:
        return NO_SPEC
    value = evidence.figures.mfu.value
    return value if value is not None else NotPossible(reason="the peak of this GPU type and dtype is not known")


def _conflicts(evidence: Evidence) -> list[int]:
    alone = evidence.prints is not None and not evidence.prints.every_rank
    fields = ("loss", "time_s") if alone else ("loss",)
    return sorted({conflict.number for conflict in evidence.conflicts if conflict.field in fields})


def _clocked(evidence: Evidence) -> list[Step]:
    """The steps of the window; every step if it is too short, and none of a profiled run, as profiles take time."""
    window = evidence.figures.window if evidence.figures else None
    if window is not None and (window.span or 0) >= FEW:
        return [step for step in evidence.steps if window.holds(step.number)]
    profiled = evidence.spec is not None and evidence.spec.profile is not None
    return [] if profiled else list(evidence.steps)


def _clock(evidence: Evidence) -> tuple[float, float, int] | NotPossible:
    """Seconds that the steps claim, seconds that passed, and the number of steps, over the measured window.

    The clock is that of the follower; for a run that nobody followed it is that of the log.
    """
    inside = _clocked(evidence)
    numbers = {step.number for step in inside}
    stamps = {arrival.number: arrival.at for arrival in evidence.arrivals if arrival.number in numbers}
    if not evidence.arrivals:
        stamps = {step.number: step.printed_at for step in inside if step.printed_at is not None}
    if len(stamps) < 2:
        return NotPossible(
            reason="the times of the steps' lines are not known: nobody followed the run, and the log has none"
        )
    first, last = min(stamps), max(stamps)
    times = {step.number: step.time_s for step in inside if first < step.number <= last and step.time_s is not None}
    if len(times) < last - first:
        return NotPossible(reason="steps between the first and the last stamp have no time")
    passed = stamps[last] - stamps[first]
    if passed < 0:
        return NotPossible(reason="the clock was set back")
    return sum(times.values()), passed, len(times)


CHECKS = (
    Check(
        "over-peak", "The MFU of the window.", "More than 100 % of the peak is impossible: the times are wrong, or the "
        "job is smaller than asked for.", "Check the batch, the model and the peak of the GPU type.", "invalid",
        over_peak,
    ),
    Check(
        "near-peak", "The MFU of the window.", "Above 80 % of the dense peak: faster than any published training.",
        "Check the peak of the GPU type and the dtype.", "warning", near_peak,
    ),
    Check(
        "fast-step", "The shortest measured step.", "It is shorter than the peak allows: its time is wrong.",
        "Leave the step out with --window, and look at the log.", "invalid", fast_step,
    ),
    Check(
        "window-share", "The measured steps of the window.", "Fewer than 80 % of the window's steps could be measured.",
        "Look for damaged lines and skipped steps, or choose another --window.", "invalid", share,
    ),
    Check(
        "step-gap", "The numbers of the steps.", "Steps are missing in the log: lines were lost or damaged.",
        "Look at the log around the first missing step.", "warning", gap,
    ),
    Check(
        "step-twice", "Steps that the log has twice, with different values.", "One line is not this training's.",
        "Look at the log at that step.", "warning", twice,
    ),
    Check(
        "two-writers", "Steps that the log has twice, with different values.",
        "Two trainings write into one log, or the ranks train by themselves.",
        "Check the launcher's world size, and whether the folder is used twice.", "invalid", two_writers,
    ),
    Check(
        "lines-mixed", "The order of the steps' lines and their numbers.",
        "The log was reversed, shuffled or put together from several logs, and a number stands for several steps.",
        "Parse the original log, or each of the logs alone.", "invalid", mixed,
    ),
    Check(
        "lines-sorted", "The order of the steps' lines and their numbers.",
        "The log was reversed, shuffled or put together from parts of one training. Each line has its number, so the "
        "figures are right; what stands beside the steps cannot be assigned to them.",
        "Parse the original log.", "warning", in_order,
    ),
    Check(
        "restarted", "Lines that a training prints only when it starts, and falling step numbers.",
        "The figures mix a cold start, or the run lost its first half.", "Find out what ended the first training.",
        "invalid", restarted,
    ),
    Check(
        "several-trainings", "The restarts in a log that no run of llmbx wrote.",
        "A scheduler requeued the job, or several runs were written into one file.",
        "Check that the last training is the one to measure.", "warning", several_trainings,
    ),
    Check(
        "clock-short", "The times of the window's steps, and the wall clock between their lines.",
        "The steps claim at least 10 % more time than passed.", "Check the clock of the node and the log's interval.",
        "invalid", too_long,
    ),
    Check(
        "clock-long", "The times of the window's steps, and the wall clock between their lines.",
        "The steps claim less than half of the time that passed: the rest is not in the figures.",
        "Look for checkpoints, evaluation and waiting for data in the window.", "invalid", too_short,
    ),
)  # fmt: skip
