"""The verdict of a comparison: comparable first, then stable, then the interval, then what the mean hides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from llmbx.api import UsageError, Value, did_you_mean, mean_of
from llmbx_verdict.statistics import intervals, planning
from llmbx_verdict.statistics.run_variation import PUBLISHED, Spread

from .comparison import Better, Detectable, Metric, Needed, Verdict
from .logs import MeasuredLog
from .measured import Measured, MeasuredRun, by_median, more_slow_steps, times, unstable
from .metrics import change_of_pairs, hidden
from .verdict import NORMAL, STEP_TIME, Gate, decide_verdict, interval, needed, negated, sentence


class Judged(Value, frozen=True):
    """The verdict, its reason, the change (None: no figures) and what would decide an inconclusive comparison."""

    verdict: Verdict
    reason: str
    change: intervals.Change | None = None
    needed: Needed | None = None
    detectable: Detectable | None = None


def detect(judged: Judged, to_detect: float | None) -> Judged:
    """The verdict with what the data can show.

    If it cannot show a difference of `to_detect` (a fraction), `equivalent` and `faster` are inconclusive.
    """
    change = judged.change
    if change is None or judged.verdict == "not comparable" or not -1 < change.low < change.high < math.inf:
        return judged
    differences = sorted({0.01, 0.02, *(() if to_detect is None else (to_detect,))})
    shows = Detectable(
        fraction=planning.detectable(change),
        runs={f"{100 * size:g}%": planning.runs_to_detect(change, size) for size in differences},
    )
    judged = judged.replace(detectable=shows)
    if to_detect is None or shows.fraction <= to_detect or judged.verdict not in ("equivalent", "faster"):
        return judged
    reason = f"{judged.reason}, but this data would not show a difference of {100 * to_detect:g} %"
    return judged.replace(verdict="inconclusive", reason=reason)


def judge(
    a: Sequence[Measured], b: Sequence[Measured], change: intervals.Change | None, tolerance: float,
    reasons: Sequence[str], gate: Gate | ByMeasure | None = None, spread: Spread = PUBLISHED,
) -> Judged:  # fmt: skip
    """Judge B against A; `a` is empty for a published figure, `reasons` are those why both are not comparable."""
    if reasons or change is None:
        return Judged(
            verdict="not comparable", reason="; ".join(reasons) or "a side has no measured steps", change=change
        )
    if gate is not None:
        verdict, reason = gate.verdict(tolerance)
        why = None if gate.of_profiles else _no_mean(a, b)
        if why is not None:
            return Judged(verdict="inconclusive", reason=f"{why}; {reason}", change=change)
        return _planned(Judged(verdict=verdict, reason=reason, change=change), (), b, tolerance)
    verdict, reason = decide_verdict(change, tolerance)
    if (unknown := _unknown_spread(a, b, spread)) is not None:
        return Judged(verdict="inconclusive", reason=f"{unknown}; {reason}", change=change)
    if by_median(a, b):
        reason = f"by the medians, since the means depend on single steps, {reason}"
        concealed = more_slow_steps(a[0], b[0])
    elif (why := _no_mean(a, b)) is not None:
        return Judged(verdict="inconclusive", reason=f"{why}; {reason}", change=change)
    else:
        concealed = hidden(verdict, a, b, tolerance)
    if concealed is not None:
        return Judged(verdict="inconclusive", reason=f"{reason}, but {concealed}", change=change)
    return _planned(Judged(verdict=verdict, reason=reason, change=change), a, b, tolerance)


def _unknown_spread(a: Sequence[Measured], b: Sequence[Measured], spread: Spread) -> str | None:
    """Why two runs on CPUs have no verdict: how much these vary is neither published nor in the install."""
    runs = (*a, *b)
    if len(a) != 1 or len(b) != 1 or spread.runs:
        return None
    if not all(isinstance(run, MeasuredRun) and run.spec.gpu_type == "cpu" for run in runs):
        return None
    return "how much runs on this CPU vary is not known (--repeat 3 measures it)"


def _no_mean(a: Sequence[Measured], b: Sequence[Measured]) -> str | None:
    """Why the mean of a side represents nothing: unstable, or one step only."""
    reasons = [unstable("A", a), unstable("B", b)]
    single = [runs[0] for runs in (a, b) if len(runs) == 1 and len(times(runs[0])) < 2]
    reasons += [f"{run.name}: {_too_few(run)}, so its noise is unknown" for run in single]
    return "; ".join(text for text in reasons if text) or None


def _too_few(run: Measured) -> str:
    if run.result.steps_measured > sum(step.covers for step in run.steps):
        return f"steps.jsonl has {len(run.steps)} of the {run.result.steps_measured} measured steps"
    return "only one step was measured"


def _planned(judged: Judged, a: Sequence[Measured], b: Sequence[Measured], tolerance: float) -> Judged:
    """The verdict with what would decide it, if it is inconclusive."""
    if judged.verdict != "inconclusive" or judged.change is None:
        return judged
    plan = needed(a, b, judged.change, tolerance)
    logs = any(isinstance(run, MeasuredLog) for run in (*a, *b))
    text = f"{judged.reason}; {sentence(plan, judged.change, published=not a, logs=logs)}"
    return Judged(verdict=judged.verdict, reason=text, change=judged.change, needed=plan)


NO_DIRECTION = "the log format does not state which direction is better"


class ByMeasure:
    """The measure `name` of both sides, each one run or several repeats. A count is compared by its rate per second.

    `reasons` has why it cannot be compared, for example that a side lacks it. Raises `UsageError` if no run has it.
    """

    of_profiles = False

    def __init__(self, name: str, a: Sequence[Measured], b: Sequence[Measured], level: float) -> None:
        measures = sorted({measure for run in (*a, *b) for measure in run.result.measures})
        if name not in measures:
            raise UsageError(f"--measure {name}: no run has such a measure{did_you_mean(name, [STEP_TIME, *measures])}")
        self.name = name
        self._a, self._b, self._level = a, b, level
        self.reasons = [*_reasons(name, a, b)]

    @property
    def change(self) -> intervals.Change | None:
        """The relative change from A to B; None if there are reasons against it.

        Over pairs or repeats if there are any, else over the steps of two runs with the prior of the variation of the
        step time from run to run. Values that are not all above 0 have no logarithms, and their plain difference is
        used.
        """
        if self.reasons:
            return None
        values_a, values_b = ([value(run, self.name) or 0.0 for run in side] for side in (self._a, self._b))
        if min(*values_a, *values_b) <= 0:
            return self._plain_change()
        pairs = change_of_pairs(self._a, self._b, self._level, lambda run: value(run, self.name) or 0.0)
        repeats = pairs or intervals.change_of_repeats(values_a, values_b, self._level)
        return repeats or intervals.change(*self._intervals(), PUBLISHED)

    def verdict(self, tolerance: float) -> tuple[Verdict, str]:
        """The verdict and its reason; without a direction it is equivalent or inconclusive. `tolerance`: a fraction."""
        change, better = self.change, self._better
        assert change is not None
        size = f"{100 * abs(change.fraction):.1f} %"
        text = f"{self._label} is {'higher' if change.fraction > 0 else 'lower'} by {size} ({interval(change)})"
        verdict, reason = decide_verdict(negated(change) if better == "higher" else change, tolerance, text)
        if better is None and verdict in ("faster", "slower"):
            return "inconclusive", f"{reason}; {NO_DIRECTION}"
        return verdict, reason

    @property
    def metric(self) -> Metric:
        """The row of the table."""
        return next(row for row in measure_metrics(self._a, self._b) if row.name == _row(self._newest, self.name))

    @property
    def _newest(self) -> Measured:
        return next(run for run in (*self._b[::-1], *self._a) if self.name in run.result.measures)

    @property
    def _better(self) -> Better | None:
        return self._newest.result.measures[self.name].better

    @property
    def _label(self) -> str:
        per_second = " per second" if self._newest.result.measures[self.name].kind == "count" else ""
        return self.name.replace("_", " ") + per_second

    def _intervals(self) -> tuple[intervals.Interval, intervals.Interval]:
        return measure_interval(self._a, self.name, self._level), measure_interval(self._b, self.name, self._level)

    def _plain_change(self) -> intervals.Change:
        a, b = self._intervals()
        repeats, base = len(self._a) + len(self._b) > 2, abs(a.mean)
        prior = 0.0 if repeats else PUBLISHED.half_width(self._level)
        below = math.hypot(b.mean - b.low, a.high - a.mean, prior * base) / base
        above = math.hypot(b.high - b.mean, a.mean - a.low, prior * base) / base
        fraction = (b.mean - a.mean) / base
        return intervals.Change(
            fraction=fraction,
            low=fraction - below,
            high=fraction + above,
            level=self._level,
            over="repeats" if repeats else "steps",
            run_std=(below + above) / 2 / NORMAL / math.sqrt(1 / len(self._a) + 1 / len(self._b)),
            prior=prior,
        )


def value(run: Measured, name: str) -> float | None:
    """The measure of a run: of a count its rate per second, of others the mean; None if it has no value."""
    measure = run.result.measures.get(name)
    if measure is None:
        return None
    return measure.per_second if measure.kind == "count" else measure.mean


def measure_interval(runs: Sequence[Measured], name: str, level: float) -> intervals.Interval:
    """The measure with its interval: over the runs if there are several, else over the steps. All must have it."""
    values = [value(run, name) or 0.0 for run in runs]
    if len(runs) > 1:
        interval = intervals.over_repeats(values, level)
    else:
        pairs = [(s.time_s, s.measures[name]) for s in runs[0].steps if s.time_s is not None and name in s.measures]
        is_count = runs[0].result.measures[name].kind == "count"
        each = rate_values(pairs) if is_count else [each for _, each in pairs]
        interval = intervals.over_steps(each, level)
    return interval or intervals.exact(values[-1], level)


def rate_values(pairs: Sequence[tuple[float, float]]) -> list[float]:
    """One value for each pair (seconds, count), whose mean is the rate and whose spread is that of the rate.

    The rate is the sum of the counts divided by the sum of the times. The linearization of a ratio: the rate plus the
    pair's own excess, count - rate x time, divided by the mean time (Cochran, Sampling Techniques, 6.3). Intervals for
    means apply to these values.
    """
    seconds = math.fsum(time for time, _ in pairs)
    if seconds <= 0:
        return []
    rate = math.fsum(count for _, count in pairs) / seconds
    usual = seconds / len(pairs)
    return [rate + (count - rate * time) / usual for time, count in pairs]


def measure_metrics(a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[Metric]:
    """The rows of the table: each measure of a run by its name in `result.json`. None for a side that lacks it."""
    runs = [*a, *b]
    for name in dict.fromkeys(name for run in runs for name in run.result.measures):
        newest = next(run for run in reversed(runs) if name in run.result.measures)
        measure = newest.result.measures[name]
        differs = _units_differ(name, a, b)
        mean_a, mean_b = (None, None) if differs else (_mean(a, name), _mean(b, name))
        yield Metric(
            name=_row(newest, name),
            unit=f"{measure.unit}/s" if measure.kind == "count" else measure.unit,
            better=measure.better,
            a=mean_a,
            b=mean_b,
            change_percent=100 * (mean_b / mean_a - 1) if mean_a is not None and mean_b is not None else None,
            note=differs,
        )


def _row(run: Measured, name: str) -> str:
    return f"measures.{name}.{'per_second' if run.result.measures[name].kind == 'count' else 'mean'}"


def _mean(side: Sequence[Measured], name: str) -> float | None:
    return mean_of(value(run, name) for run in side)


def _reasons(name: str, a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[str]:
    """Why the sides cannot be compared by this measure."""
    for run in (*a, *b):
        if name not in run.result.measures:
            yield f"{run.name} has no measure {name}"
        elif value(run, name) is None:
            yield f"no measured step of {run.name} has the measure {name}"
    differs = _units_differ(name, a, b)
    if differs:
        yield differs
    if _mean(a, name) == 0:
        yield f"the measure {name} is 0 in A, so there is no relative change"


def _units_differ(name: str, a: Sequence[Measured], b: Sequence[Measured]) -> str | None:
    """Why the values of a measure are not of the same kind; None if they are."""
    measures = [run.result.measures[name] for run in (*a, *b) if name in run.result.measures]
    kinds = dict.fromkeys((measure.unit, measure.kind) for measure in measures)
    if len(kinds) < 2:
        return None
    return f"the measure {name} is not the same: {' and '.join(f'a {kind} in {unit}' for unit, kind in kinds)}"
