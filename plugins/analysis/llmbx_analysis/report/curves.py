"""Charts of one cell: step time and loss per step, and the distribution of the measured step times."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from llmbx.api import Axis, Chart, Point, Rule, Series, Span, Step, mean_of, median_of
from llmbx.api.verbs import format_number
from llmbx_verdict.statistics import series as step_series

from ..compare.measured import inside, times
from ..formatting import slug
from .cells import Cell, RunData, is_time
from .figures import AS_LOGGED

MOST_RUNS = 6
"""Most curves in one chart."""

FAR = 2.0
"""Steps slower than this factor times the slowest measured step are drawn at the edge of the chart."""


def curves(cell: Cell, name: str = "") -> tuple[Chart, ...]:
    """The charts of one cell for which its logs have data. `name` is added to their names and titles."""
    shown = cell.runs[-MOST_RUNS:]
    drawn = (step_times(shown, name, _reference_lines(cell)), losses(shown, name), distribution(cell.valid_runs, name))
    return tuple(chart for chart in drawn if chart is not None)


def step_times(runs: Sequence[RunData], name: str = "", reference_lines: Sequence[Rule] = ()) -> Chart | None:
    """Step time in seconds by step, with the measured window, its mean and `reference_lines`.

    None if no step has a time.
    """
    series = _curves(runs, lambda step: step.time_s)
    if not series:
        return None
    valid = [s for s in runs if s.valid]
    means = [s.result.step_time_s.mean for s in valid if s.result.step_time_s.mean is not None]
    rules = (Rule(name=f"mean {format_number(means[0])} s", y=means[0]),) if len(means) == 1 else ()
    return Chart(
        name=_name("step-time", name),
        title="Step time" + (f": {name}" if name else ""),
        x=Axis(title="step", unit="number"),
        y=Axis(title="step time", unit="s", top=_top(runs)),
        series=series,
        spans=_windows(runs),
        rules=(*rules, *reference_lines),
        summary=_summary(runs),
        formula="seconds per step in the log; the measured window is shaded",
    )


def losses(runs: Sequence[RunData], name: str = "") -> Chart | None:
    """Loss by step; None if the log has no loss."""
    series = _curves(runs, lambda step: step.loss)
    if not series:
        return None
    ends = [(s.result.loss.first, s.result.loss.last) for s in runs]
    ranges = "; ".join(
        f"from {format_number(a)} to {format_number(b)}" for a, b in ends if a is not None and b is not None
    )
    return Chart(
        name=_name("loss", name),
        title="Loss" + (f": {name}" if name else ""),
        x=Axis(title="step", unit="number"),
        y=Axis(title="loss", unit=AS_LOGGED),
        series=series,
        spans=_windows(runs),
        summary=f"Loss by step, {ranges}." if ranges else "Loss by step.",
        formula="loss in the log",
    )


def distribution(runs: Sequence[RunData], name: str = "") -> Chart | None:
    """Histogram of the measured step times; None for fewer than four steps or if all are equal."""
    seconds = sorted(time for run in runs for time in times(run.measured))
    if len(seconds) < 4 or seconds[0] == seconds[-1]:
        return None
    mean, median = mean_of(seconds) or 0.0, median_of(seconds) or 0.0
    of = f"{len(seconds)} measured steps" + (f" of {len(runs)} runs" if len(runs) > 1 else "")
    return Chart(
        name=_name("distribution", name),
        title="Distribution of the measured step times" + (f": {name}" if name else ""),
        x=Axis(title="step time", unit="s"),
        y=Axis(title="steps", unit="steps", zero=True),
        series=(Series(name="measured steps", points=bars(seconds), marks="bars"),),
        rules=(Rule(name=f"mean {format_number(mean)} s", x=mean),),
        summary=f"{of}: median {format_number(median)} s, "
        f"from {format_number(seconds[0])} to {format_number(seconds[-1])} s.",
        formula=f"number of measured steps per bar; {WIDTHS}",
    )


def _curves(runs: Sequence[RunData], read: Callable[[Step], float | None]) -> tuple[Series, ...]:
    series = []
    for run in runs:
        ratios = {outlier.number: outlier.ratio for outlier in step_series.outliers(run.measured_steps)}
        points = [_point(step, read(step), run, ratios) for step in run.steps]
        if any(point.y is not None for point in points):
            series.append(Series(name=label(run), points=step_series.thinned(points)))
    return tuple(series)


def label(run: RunData) -> str:
    """The name of a run among the repeats of its cell: its id without the experiment."""
    return f"run {run.record.run_id.removeprefix(run.spec.experiment).lstrip('_') or run.record.run_id}"


def _point(step: Step, value: float | None, run: RunData, ratios: dict[int, float]) -> Point:
    finite = value if value is not None and math.isfinite(value) else None
    note = f"outlier, {ratios[step.number]:.2f} × the median" if step.number in ratios else None
    if note is None and not inside(step, run.result):
        note = "not measured"
    return Point(x=step.number, y=finite, note=note)


def _reference_lines(cell: Cell) -> tuple[Rule, ...]:
    """The step times of the baseline and the published row, if they are within a factor `FAR` of the own one."""
    own = mean_of([s.result.step_time_s.mean for s in cell.valid_runs if s.result.step_time_s.mean is not None])
    rules = []
    for compared in cell.comparisons:
        seconds = compared.a.step_time_s.mean if compared.a.step_time_s else None
        if own is not None and seconds is not None and own / FAR <= seconds <= own * FAR:
            label_text = "published" if compared.a.kind == "reference" else f"baseline {compared.a.label}"
            rules.append(Rule(name=f"{label_text} {format_number(seconds)} s", y=seconds))
    return tuple(rules)


def _windows(runs: Sequence[RunData]) -> tuple[Span, ...]:
    """The measured window, if all runs have the same one."""
    windows = {(s.result.window.first, s.result.window.last) for s in runs}
    if len(windows) != 1:
        return ()
    ((first, last),) = windows
    if first is None or last is None:
        return ()
    return (Span(name="measured window", first=first - 0.5, last=last + 0.5),)


def _top(runs: Sequence[RunData]) -> float | None:
    """Upper end of the axis if slow steps (such as a first step that compiles) would flatten the curve, else None."""
    measured = [step.time_s for s in runs for step in s.measured_steps if step.time_s is not None]
    valid = [step.time_s for s in runs for step in s.steps if step.time_s is not None and is_time(step.time_s)]
    if not measured or max(valid) <= FAR * max(measured):
        return None
    low, high = min(valid), max(measured)
    return high + max(0.25 * (high - low), 0.05 * high)


def _summary(runs: Sequence[RunData]) -> str:
    if len(runs) > 1:
        return f"Step time by step of {len(runs)} runs; the measured window is shaded."
    result = runs[0].result
    if result.step_time_s.mean is None:
        return f"Step time of the {result.steps_seen} steps in the log; none of them is in the measured window."
    window = f"steps {result.window.first} to {result.window.last}"
    mean = format_number(result.step_time_s.mean)
    return f"Step time by step; the mean over the measured window ({window}) is {mean} s."


def _name(kind: str, name: str) -> str:

    return f"{kind}-{slug(name)}" if name else kind


BARS = (5, 30)
"""Least and largest number of bars."""

WIDTHS = "bar width by Freedman and Diaconis, 2 × IQR / n^(1/3)"


def bars(ordered: Sequence[float]) -> tuple[Point, ...]:
    """Histogram of sorted values that are not all equal. Bars are half-open; only the last one includes its end."""
    edges = _edges(ordered[0], ordered[-1], _width(ordered))
    return tuple(
        Point(x=edges[k], until=edges[k + 1], y=float(count)) for k, count in enumerate(_counts(ordered, edges))
    )


def shared_bars(sides: Sequence[Sequence[float]]) -> list[tuple[Point, ...]]:
    """Histograms of several sides over the same edges, in percent of the values of each side, without empty bars.

    The sides are sorted and not empty, and not all values are equal.
    """
    widths = [_width(side) for side in sides]
    edges = _edges(
        min(side[0] for side in sides), max(side[-1] for side in sides), min(filter(None, widths), default=0)
    )
    return [
        tuple(
            Point(x=edges[k], until=edges[k + 1], y=100 * count / len(side))
            for k, count in enumerate(_counts(side, edges))
            if count
        )
        for side in sides
    ]


def _width(ordered: Sequence[float]) -> float:
    """The width of a bar; 0 if the middle half of the values is equal."""
    n = len(ordered)
    return 2 * (ordered[(3 * n) // 4] - ordered[n // 4]) / math.cbrt(n)


def _edges(low: float, high: float, width: float) -> list[float]:
    few, many = BARS
    bars = (high - low) / width if width > 0 else few  # infinite if one value is beyond all others
    count = math.ceil(min(many, max(few, bars)))
    return [low + (high - low) * (k / count) for k in range(count)] + [high]


def _counts(ordered: Sequence[float], edges: Sequence[float]) -> list[int]:
    counts = [0] * (len(edges) - 1)
    for value in ordered:
        counts[min(len(counts), bisect_right(edges, value)) - 1] += 1
    return counts
