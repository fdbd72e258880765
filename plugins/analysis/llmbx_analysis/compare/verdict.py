"""Decide whether a change is equivalent, faster, slower or inconclusive, and what would decide it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from llmbx.api import Figure, UsageError, did_you_mean
from llmbx.api.verbs import Plugins
from llmbx_verdict.statistics import intervals, planning
from llmbx_verdict.statistics.run_variation import PUBLISHED

from .comparison import Metric, Needed, Verdict
from .measured import Measured, MeasuredRun, step_times


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


def needed(a: Sequence[Measured], b: Sequence[Measured], change: intervals.Change, tolerance: float) -> Needed:
    """The number of runs, pairs or steps that would decide. `a` is empty for a published figure."""
    runs = planning.runs_needed(change, tolerance)
    if change.over == "pairs":
        return Needed(pairs=runs)
    if change.over == "repeats" or len(a) != 1 or len(b) != 1:
        return Needed(runs=runs)
    time_a, time_b = step_times(a, b, change.level)
    return Needed(runs=runs, steps=planning.steps_needed(time_a, time_b, change, tolerance))


def sentence(plan: Needed, change: intervals.Change, published: bool = False, logs: bool = False) -> str:
    """The plan in words. Without `--repeat` for `logs`, which llmbx cannot repeat."""
    ways = []
    if plan.runs is not None:
        how = "" if logs else f" (--repeat {plan.runs})"
        ways.append(f"{plan.runs} runs{'' if published else ' on each side'}{how}")
    if plan.pairs is not None:
        ways.append(f"{plan.pairs} pairs (--interleave {plan.pairs})")
    if plan.steps is not None:
        ways.append(f"windows of {plan.steps} steps")
    if not ways:
        return f"more than {planning.MOST} runs would be needed to decide: the difference is too close to the tolerance"
    return f"about {' or '.join(ways)} would decide, if the difference stays at {100 * change.fraction:+.1f} %"


STEP_TIME = "step_time"

NORMAL = 1.96
"""Half of a 95 % interval in standard deviations: what one run varies by, for the plan of further runs."""


class Gate:
    """The metric `name` of both sides, each one run or several repeats. Raises `UsageError` if a run lacks it."""

    of_profiles = True
    reasons = ()

    def __init__(self, name: str, a: Sequence[Measured], b: Sequence[Measured], plugins: Plugins, level: float) -> None:
        sides = [[_figure(name, run, plugins) for run in side] for side in (a, b)]
        self.name, self.figure = name, sides[1][-1]
        self._a, self._b = (_interval(side, level) for side in sides)
        self._step_s = sides[0][-1].step_s
        self._level, self._repeats = level, len(a) + len(b) > 2
        self._counts = len(a), len(b)

    @property
    def change(self) -> intervals.Change:
        """The difference B - A as a fraction of A's step time, or of A's value if the metric is not part of a step.

        The interval is recovered from the intervals of both means (see `llmbx.measure.intervals.change`). For one run
        on each side, the prior for the variation of the step time from run to run is added to a part of a step. Raises
        `UsageError` if the value to divide by is 0.
        """
        a, b, base = self._a, self._b, self._step_s or self._a.mean
        if not base:
            raise UsageError(f"{self._label} is 0 in A, so there is no relative change")
        difference = b.mean - a.mean
        prior = 0.0 if self._repeats or not self._step_s else PUBLISHED.half_width(self._level)
        below = math.hypot(b.mean - b.low, a.high - a.mean, prior * base)
        above = math.hypot(b.high - b.mean, a.mean - a.low, prior * base)
        return intervals.Change(
            fraction=difference / base,
            low=(difference - below) / base,
            high=(difference + above) / base,
            level=self._level,
            over="repeats" if self._repeats else "steps",
            run_std=(below + above) / 2 / base / NORMAL / math.sqrt(1 / self._counts[0] + 1 / self._counts[1]),
            prior=prior,
        )

    def verdict(self, tolerance: float) -> tuple[Verdict, str]:
        """The verdict and its reason. `tolerance` is a fraction of the step time or of the value."""
        change = self.change
        size = f"{100 * abs(change.fraction):.1f} %{' of the step time' if self._step_s else ''}"
        text = f"{self._label} is {'higher' if change.fraction > 0 else 'lower'} by {size} ({interval(change)})"
        worse = change if self.figure.better == "lower" else negated(change)
        return decide_verdict(worse, tolerance, text)

    @property
    def metric(self) -> Metric:
        """The row of the table."""
        a, b, figure = self._a.mean, self._b.mean, self.figure
        change = 100 * (b / a - 1) if a else None
        note = f"profiled steps of {self._step_s:.4g} s" if self._step_s else None
        return Metric(name=figure.name, unit=figure.unit, better=figure.better, a=a, b=b, change_percent=change,
                      note=note)  # fmt: skip

    @property
    def _label(self) -> str:
        return self.figure.name.replace("_", " ")


def figures_of(run: MeasuredRun, plugins: Plugins) -> dict[str, Figure]:
    """The metrics of the run's profilers by name."""
    figures = [
        figure
        for profiler in run.spec.profilers
        for answer in plugins.ask(profiler, "figures", spec=run.spec, run_dir=run.run.path) or []
        for figure in answer
    ]
    return {figure.name: figure for figure in figures if figure.values}


def _figure(name: str, run: Measured, plugins: Plugins) -> Figure:
    if not isinstance(run, MeasuredRun):
        raise UsageError(f"--gate {name}: {run.name} is a log without a profile")
    figures = figures_of(run, plugins)
    if name in figures:
        return figures[name]
    metrics = [STEP_TIME, *figures]
    raise UsageError(f"--gate {name}: {run.name} has no such metric{did_you_mean(name, metrics)}")


def _interval(side: Sequence[Figure], level: float) -> intervals.Interval:
    """The interval over the runs if there are several, else over the steps of the run."""
    means = [fmean(figure.values) for figure in side]
    interval = intervals.over_repeats(means, level) if len(side) > 1 else intervals.over_steps(side[0].values, level)
    return interval or intervals.exact(means[-1], level)


def negated(change: intervals.Change) -> intervals.Change:
    """The change of the opposite direction."""
    return change.replace(fraction=-change.fraction, low=-change.high, high=-change.low)
