"""Curves of step time and loss with the window shaded, and the distribution of the measured steps. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from llmbx.cli.words import number
from llmbx.measure import stats
from llmbx.measure.series import outliers, thinned
from llmbx.model import Axis, Chart, Point, Rule, Series, Span, Step

from ..compare.measured import inside, times
from .figures import AS_LOGGED
from .subjects import Cell, Subject, is_time

MOST_RUNS = 6
"""Curves in one chart."""

FAR = 2.0
"""Steps that take longer than this times the slowest measured one are drawn at the chart's edge."""

BARS = (5, 30)
"""Fewest and most bars of a distribution."""


def curves(cell: Cell, name: str = "") -> tuple[Chart, ...]:
    """The charts of one cell, as far as its logs tell. `name` sets their names apart in a report of several cells."""
    shown = cell.subjects[-MOST_RUNS:]
    found = (step_times(shown, name, _yardsticks(cell)), losses(shown, name), distribution(cell.sound, name))
    return tuple(chart for chart in found if chart is not None)


def step_times(subjects: Sequence[Subject], name: str = "", yardsticks: Sequence[Rule] = ()) -> Chart | None:
    """Seconds of every step, the measured window shaded, its mean drawn, and other figures (`yardsticks`) beside it.

    None where no step has a time.
    """
    series = _curves(subjects, lambda step: step.time_s)
    if not series:
        return None
    sound = [s for s in subjects if s.sound]
    means = [s.result.step_time_s.mean for s in sound if s.result.step_time_s.mean is not None]
    rules = (Rule(name=f"mean {number(means[0])} s", y=means[0]),) if len(means) == 1 else ()
    return Chart(
        name=_name("step-time", name),
        title="Step time" + (f": {name}" if name else ""),
        x=Axis(title="step", unit="number"),
        y=Axis(title="step time", unit="s", top=_top(subjects)),
        series=series,
        spans=_windows(subjects),
        rules=(*rules, *yardsticks),
        summary=_summary(subjects),
        formula="seconds that the log gives each step; the shaded window is what was measured",
    )


def losses(subjects: Sequence[Subject], name: str = "") -> Chart | None:
    """The loss of every step; None where the log prints none."""
    series = _curves(subjects, lambda step: step.loss)
    if not series:
        return None
    ends = [(s.result.loss.first, s.result.loss.last) for s in subjects]
    told = "; ".join(f"from {number(a)} to {number(b)}" for a, b in ends if a is not None and b is not None)
    return Chart(
        name=_name("loss", name),
        title="Loss" + (f": {name}" if name else ""),
        x=Axis(title="step", unit="number"),
        y=Axis(title="loss", unit=AS_LOGGED),
        series=series,
        spans=_windows(subjects),
        summary=f"Loss by step, {told}." if told else "Loss by step.",
        formula="loss that the log prints with each step",
    )


def distribution(subjects: Sequence[Subject], name: str = "") -> Chart | None:
    """How the measured step times are distributed; None for fewer than four of them."""
    seconds = sorted(time for subject in subjects for time in times(subject.measured))
    if len(seconds) < 4 or seconds[0] == seconds[-1]:
        return None
    mean, median = stats.mean(seconds) or 0.0, stats.median(seconds) or 0.0
    of = f"{len(seconds)} measured steps" + (f" of {len(subjects)} runs" if len(subjects) > 1 else "")
    return Chart(
        name=_name("distribution", name),
        title="Distribution of the measured steps" + (f": {name}" if name else ""),
        x=Axis(title="step time", unit="s"),
        y=Axis(title="steps", unit="steps", zero=True),
        series=(Series(name="measured steps", points=bars(seconds), marks="bars"),),
        rules=(Rule(name=f"mean {number(mean)} s", x=mean),),
        summary=f"{of}: median {number(median)} s, from {number(seconds[0])} to {number(seconds[-1])} s.",
        formula="steps of the window by their time; widths by Freedman and Diaconis, 2 × IQR / n^(1/3)",
    )


def bars(ordered: Sequence[float]) -> tuple[Point, ...]:
    """A histogram of sorted values that are not all equal; every value is in exactly one bar, the last one closed."""
    n, low, high = len(ordered), ordered[0], ordered[-1]
    width = 2 * (ordered[(3 * n) // 4] - ordered[n // 4]) / n ** (1 / 3)
    count = min(BARS[1], max(BARS[0], math.ceil((high - low) / width))) if width > 0 else BARS[0]
    edges = [low + (high - low) * k / count for k in range(count)] + [high]
    counts = [0] * count
    for value in ordered:
        counts[min(count - 1, max(k for k in range(count) if edges[k] <= value))] += 1
    return tuple(
        Point(x=edges[k], until=edges[k + 1], y=float(counts[k])) for k in range(count)
    )  # fmt: skip


def _curves(subjects: Sequence[Subject], read: Callable[[Step], float | None]) -> tuple[Series, ...]:
    found = []
    for subject in subjects:
        odd = {outlier.number: outlier.ratio for outlier in outliers(subject.measured_steps)}
        points = [_point(step, read(step), subject, odd) for step in subject.steps]
        if any(point.y is not None for point in points):
            found.append(Series(name=label(subject), points=thinned(points)))
    return tuple(found)


def label(subject: Subject) -> str:
    """A run's name among the repeats of its cell: what sets its id apart."""
    return f"run {subject.record.run_id.removeprefix(subject.spec.experiment).lstrip('_') or subject.record.run_id}"


def _point(step: Step, value: float | None, subject: Subject, odd: dict[int, float]) -> Point:
    known = value if value is not None and math.isfinite(value) else None
    note = f"outlier, {odd[step.number]:.2f} × the median" if step.number in odd else None
    if note is None and not inside(step, subject.result):
        note = "not measured"
    return Point(x=step.number, y=known, note=note)


def _yardsticks(cell: Cell) -> tuple[Rule, ...]:
    """The step times that the cell was held against, where they are near enough to share its axis."""
    own = stats.mean([s.result.step_time_s.mean for s in cell.sound if s.result.step_time_s.mean is not None])
    found = []
    for compared in cell.against:
        seconds = compared.a.step_time_s.mean if compared.a.step_time_s else None
        if own is not None and seconds is not None and own / FAR <= seconds <= own * FAR:
            words = "published" if compared.a.kind == "reference" else f"baseline {compared.a.label}"
            found.append(Rule(name=f"{words} {number(seconds)} s", y=seconds))
    return tuple(found)


def _windows(subjects: Sequence[Subject]) -> tuple[Span, ...]:
    """The measured window, where all runs have the same one."""
    windows = {(s.result.window.first, s.result.window.last) for s in subjects}
    if len(windows) != 1:
        return ()
    ((first, last),) = windows
    if first is None or last is None:
        return ()
    return (Span(name="measured window", first=first - 0.5, last=last + 0.5),)


def _top(subjects: Sequence[Subject]) -> float | None:
    """Where the axis ends when some steps (a first one that compiles) would flatten all others; None: nowhere."""
    measured = [step.time_s for s in subjects for step in s.measured_steps if step.time_s is not None]
    every = [step.time_s for s in subjects for step in s.steps if step.time_s is not None and is_time(step.time_s)]
    if not measured or max(every) <= FAR * max(measured):
        return None
    low, high = min(every), max(measured)
    return high + max(0.25 * (high - low), 0.05 * high)


def _summary(subjects: Sequence[Subject]) -> str:
    if len(subjects) > 1:
        return f"Step time by step of {len(subjects)} runs; the measured window is shaded."
    result = subjects[0].result
    if result.step_time_s.mean is None:
        return f"Step time of the {result.steps_seen} steps that were seen; none of them was measured."
    window = f"steps {result.window.first} to {result.window.last}"
    return f"Step time by step; {window} are the measured window with a mean of {number(result.step_time_s.mean)} s."


def _name(kind: str, name: str) -> str:
    from llmbx.cli.words import slug

    return f"{kind}-{slug(name)}" if name else kind
