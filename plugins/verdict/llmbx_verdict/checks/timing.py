"""Can the times be true? Peak, wall clock, numbers of the steps, writers and restarts."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import (
    Answer,
    Check,
    Evidence,
    NotPossible,
    Step,
    Value,
)

from .common import NO_SPEC

HIGH = 0.8
"""No published training reaches 80 % of the dense peak."""

SHARE = 0.8
"""Least share of the window's steps that must be measured."""

FASTER = 1.1
"""Largest ratio of the steps' times to the wall clock; the clocks of two ranks and the rounding of the log differ."""

HIDDEN = 0.5
"""Least ratio of the steps' times to the wall clock: the rest is evaluation, checkpoints and waiting for data."""

CLOCK_SET_S = 2.0
"""A wall clock that was set by less, in seconds, does not matter."""

STEP_SLACK_S = 0.1
"""Seconds per step that a small machine needs to print it."""

RUN_SLACK_S = 2.0
"""Seconds by which the clocks that recorded the start and the end of a run may differ: a scheduler's are rounded."""

LOCAL_SLACK_S = 0.2
"""The same for a local run, whose start and end one machine recorded."""

SHARED_DISK_S = 2.0
"""Seconds by which a line of another machine may be seen late, on a file system that both share."""

LONG_S = 20.0
"""Windows shorter than this are timed together with the run's other steps."""

NO_TIMES = "the times of the steps' lines are unknown: the run was not followed, and the log has none"
ONE_READ = "too few of the steps' lines were read at different times: the training was short, or its output is buffered"

WRONG = 10.0
"""A clock must show times that are wrong by this factor, or the check is not possible."""

PHASE = "phase"
"""The fact of a `restarted` event that begins a phase of the launch, which is not a restart."""


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
    if not measured or not window.span or measured >= SHARE * _printable(evidence, window.span):
        return None
    return f"only {measured} of the {window.span} steps of the window {window.first}-{window.last} are measured"


def _printable(evidence: Evidence, span: int) -> int:
    """The number of steps in a window of this length of which the log may have a figure."""
    every = evidence.interval
    if any(step.covers > 1 for step in evidence.steps):
        return every * max(1, span // every - 1)  # a window may begin and end inside an interval
    return max(1, span // every)


def gap(evidence: Evidence) -> Answer:
    """Numbers of steps are missing in the log."""
    numbers = [step.number for step in evidence.steps]
    every = evidence.interval
    first = numbers[0] if every == 1 else next(n for n in numbers if n % every == numbers[-1] % every)
    missing = sorted(set(range(first, numbers[-1] + 1, every)) - set(numbers))
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


def measured_twice(evidence: Evidence) -> Answer:
    """The log has a measure of one step twice, with different values."""
    conflicts = [conflict for conflict in evidence.conflicts if conflict.field.startswith("measures.")]
    if (evidence.prints is not None and evidence.prints.every_rank) or not conflicts:
        return None
    name, steps = conflicts[0].field.removeprefix("measures."), sorted({conflict.number for conflict in conflicts})
    more = f", and {len(steps) - 1} other steps" if len(steps) > 1 else ""
    return f"the log has {name} of step {steps[0]} twice, with different values{more}; the last one is used"


def order(evidence: Evidence) -> Answer:
    """The lines of the steps are out of order."""
    return f"out of order, {evidence.out_of_order}" if evidence.out_of_order else None


def restarted(evidence: Evidence) -> Answer:
    """The training restarted inside one attempt."""
    if evidence.spec is None:
        return NO_SPEC
    count = _restarts(evidence)
    times = "once" if count == 1 else f"{count} times"
    return f"the training restarted {times} inside one attempt" if count else None


def several_trainings(evidence: Evidence) -> Answer:
    """A log without a run has several trainings."""
    if evidence.spec is not None:
        return None
    count = _restarts(evidence)
    return f"the log has {count + 1} trainings, one after the other; the last one is measured" if count else None


def _restarts(evidence: Evidence) -> int:
    events = (*evidence.earlier, *evidence.events)
    return sum(event.kind == "restarted" and PHASE not in event.facts for event in events)


class Clock(Value, frozen=True):
    """The wall clock over some steps: `claimed` seconds by the log, `shortest` to `longest` seconds by the stamps.

    A line may be printed a step late, or together with the next one: `margin` is twice the longest claimed step.
    """

    claimed: float
    shortest: float
    longest: float
    count: int
    margin: float

    @property
    def claims_more(self) -> bool:
        """Whether the steps claim more time than passed."""
        return self.claimed > FASTER * self.longest + self.margin

    @property
    def claims_less(self) -> bool:
        """Whether most of the time that passed is in no step."""
        hidden = self.shortest - STEP_SLACK_S * (self.count + 2) - self.margin
        return self.claimed < HIDDEN * hidden

    def scaled_to(self, seconds: float) -> Clock:
        """The same clock of steps that claim `seconds` in all."""
        changed: Clock = self.replace(claimed=seconds, margin=self.margin * seconds / self.claimed)
        return changed

    @property
    def finds_more(self) -> bool:
        """Whether times that are `WRONG` times too long would be found."""
        return self.claimed > 0 and self.scaled_to(WRONG * self.shortest).claims_more

    @property
    def finds_less(self) -> bool:
        """Whether times that are `WRONG` times too short would be found."""
        return self.claimed > 0 and self.scaled_to(self.longest / WRONG).claims_less

    @property
    def passed(self) -> str:
        """The seconds that passed, as a text."""
        low, high = f"{self.shortest:.1f}", f"{self.longest:.1f}"
        return low if low == high else f"{low} to {high}"


def too_long(evidence: Evidence) -> Answer:
    """The steps claim more time than passed."""
    clock = _clock(evidence)
    if isinstance(clock, NotPossible):
        return clock
    if clock.claims_more:
        what = f"{clock.count} steps claim {clock.claimed:.1f} s"
        return f"{what}, but only {clock.passed} s passed between their lines"
    return None if clock.finds_more else _too_few(clock)


def longer_than_run(evidence: Evidence) -> Answer:
    """The steps claim more time than the run took."""
    if evidence.lasted_s is None:
        return NotPossible(reason="the start and the end of the run are not known")
    claimed = sum((step.time_s or 0.0) * step.covers for step in evidence.steps)
    local = evidence.spec is not None and evidence.spec.launcher == "local"
    if claimed <= FASTER * evidence.lasted_s + (LOCAL_SLACK_S if local else RUN_SLACK_S):
        return None
    return f"the steps claim {claimed:.1f} s, but the run took {evidence.lasted_s:.1f} s"


def too_short(evidence: Evidence) -> Answer:
    """Much more time passed than the steps claim."""
    clock = _clock(evidence)
    if isinstance(clock, NotPossible):
        return clock
    if clock.claims_less:
        return f"{clock.count} steps claim {clock.claimed:.1f} s, but {clock.passed} s passed between their lines"
    return None if clock.finds_less else _too_few(clock)


def _too_few(clock: Clock) -> NotPossible:
    steps = "1 step" if clock.count == 1 else f"{clock.count} steps"
    return NotPossible(
        reason=f"{steps} in {clock.passed} s of the wall clock are too few to tell times that are ten times wrong"
    )


def _mfu(evidence: Evidence) -> float | NotPossible:
    value = evidence.figures.mfu.value if evidence.figures is not None else None
    if evidence.figures is None or (evidence.spec is None and value is None):
        return NO_SPEC
    return value if value is not None else NotPossible(reason="the peak of this GPU type and dtype is not known")


def _conflicts(evidence: Evidence) -> list[int]:
    alone = evidence.prints is not None and not evidence.prints.every_rank
    fields = ("loss", "time_s") if alone else ("loss",)
    return sorted({conflict.number for conflict in evidence.conflicts if conflict.field in fields})


def _clock(evidence: Evidence) -> Clock | NotPossible:
    """The wall clock over the steps of the window; over all steps if the window is short.

    No step of a profiled run is used outside of its window, as profiles take time.
    """
    everything = _clock_of(evidence, evidence.steps)
    window = evidence.figures.window if evidence.figures else None
    profiled = evidence.spec is not None and evidence.spec.profile is not None
    if window is None or not window.span:
        return NotPossible(reason="the run was profiled") if profiled else everything
    inside = _clock_of(evidence, [step for step in evidence.steps if window.holds(step.number)])
    if profiled or (isinstance(inside, Clock) and inside.shortest >= LONG_S):
        return inside
    return everything


def stamps_of(evidence: Evidence, steps: Sequence[Step]) -> dict[int, tuple[float, float]] | NotPossible:
    """When the line of each step was printed, earliest and latest.

    The clock is that of the follower; for a run that was not followed it is that of the log.
    """
    numbers = {step.number for step in steps}
    late = SHARED_DISK_S if evidence.spec is not None and evidence.spec.launcher != "local" else 0.0
    seen = evidence.arrivals[:-1]  # a program may print its last lines when it ends, long after their steps
    if evidence.arrivals:
        return {a.number: (a.at - a.width - late, a.at) for a in seen if a.number in numbers}
    if abs(evidence.clock_set_s) > CLOCK_SET_S:
        return NotPossible(reason=f"the clock of the machine was set by {evidence.clock_set_s:+.0f} s during the run")
    return _printed(steps)


def _clock_of(evidence: Evidence, steps: Sequence[Step]) -> Clock | NotPossible:
    stamps = stamps_of(evidence, steps)
    if isinstance(stamps, NotPossible):
        return stamps
    if len(stamps) < 2:
        return NotPossible(reason=ONE_READ if evidence.arrivals else NO_TIMES)
    first, last = min(stamps), max(stamps)
    clocked = [step for step in steps if first < step.number <= last]
    times = [(step.time_s, step.covers) for step in clocked if step.time_s is not None]
    count = sum(covers for _, covers in times)
    if count < last - first:
        return NotPossible(reason="steps between the first and the last stamp have no time")
    longest = stamps[last][1] - stamps[first][0]
    if longest < 0:
        return NotPossible(reason="the clock was set back")
    return Clock(
        claimed=sum(time * covers for time, covers in times),
        shortest=max(0.0, stamps[last][0] - stamps[first][1]),
        longest=longest,
        count=count,
        margin=2 * max(time for time, _ in times),
    )


def _printed(steps: Sequence[Step]) -> dict[int, tuple[float, float]]:
    """When each line was printed, earliest and latest: most logs print whole seconds."""
    stamps = {step.number: step.printed_at for step in steps if step.printed_at is not None}
    width = 1.0 if all(stamp == int(stamp) for stamp in stamps.values()) else 0.0
    return {number: (stamp, stamp + width) for number, stamp in stamps.items()}


ORDER = Check(
    "out-of-order", "The order of the steps' lines and their numbers.",
    "The log was reversed, shuffled or joined from parts in the wrong order, or a step's number is damaged.",
    "Look at these lines; parse the original log.", "invalid", order, any_order=True,
)  # fmt: skip
"""The only check of a log that is out of order."""

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
        "measure-twice", "Measures of a step that the log and its other files have twice, with different values.",
        "A measure is written several times a step, or by two writers.",
        "Write it once a step, or declare how its values are combined over the ranks.", "warning", measured_twice,
    ),
    Check(
        "two-writers", "Steps that the log has twice, with different values.",
        "Two trainings write into one log, or the ranks train by themselves.",
        "Check the launcher's world size, and whether the folder is used twice.", "invalid", two_writers,
    ),
    ORDER,
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
        "clock-short", "The times of the steps, and the wall clock between their lines.",
        "The steps claim at least 10 % more time than passed.", "Check the clock of the node and the log's interval.",
        "invalid", too_long,
    ),
    Check(
        "run-shorter", "The times of the steps, and how long the run took.",
        "The steps claim more time than the run took: the times are wrong, or the log is another run's.",
        "Check the unit of the times, and who writes the log.", "invalid", longer_than_run,
    ),
    Check(
        "clock-long", "The times of the steps, and the wall clock between their lines.",
        "The steps claim less than half of the time that passed: the rest is not in the figures.",
        "Look for checkpoints, evaluation and waiting for data in the window.", "invalid", too_short,
    ),
)  # fmt: skip
