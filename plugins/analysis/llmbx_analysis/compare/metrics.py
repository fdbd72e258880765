"""The metrics of both sides: means, pairs of runs that followed each other, and what a mean hides.

MFU and TFLOP/s are converted to one attention convention, and MFU to one peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from llmbx.api import Convention, Reference, Result, Value, mean_of, median_of
from llmbx_verdict.statistics import intervals

from ..formulas import tflops_per_gpu
from .comparison import Better, Metric, Verdict
from .measured import Measured, MeasuredRun, times

Figure = Literal["mfu", "tflops_per_gpu"]

FIGURES: tuple[tuple[str, str, Better, Callable[[Result], float | None]], ...] = (
    ("step_time", "s", "lower", lambda r: r.step_time_s.mean),
    ("tokens_per_s", "tokens/s", "higher", lambda r: r.tokens_per_s),
    ("tokens_per_s_per_gpu", "tokens/s", "higher", lambda r: r.tokens_per_s_per_gpu),
    ("days_per_1t_tokens", "days", "lower", lambda r: r.days_per_1t_tokens),
    ("peak_memory", "GB", "lower", lambda r: r.peak_memory_gb),
    ("first_step", "s", "lower", lambda r: r.timing.first_step_s),
)


def run_metrics(a: Sequence[Measured], b: Sequence[Measured]) -> list[Metric]:
    """The metrics of two sides: the means over their runs. None if a run of the side lacks the value."""
    metrics = [
        metric(name, unit, better, mean_of([read(run.result) for run in a]), mean_of([read(run.result) for run in b]))
        for name, unit, better, read in FIGURES
    ]
    return [*(m for m in metrics if m.a is not None or m.b is not None), *_compute(a, b)]


def published_metrics(reference: Reference, runs: Sequence[Measured]) -> list[Metric]:
    """The metrics of a published row and of runs. Values that are not published are left out."""
    published = {
        "step_time": reference.step_time_s,
        "tokens_per_s": reference.tokens_per_s,
        "days_per_1t_tokens": reference.days_per_1t_tokens,
    }
    metrics = [
        metric(name, unit, better, published[name], mean_of([read(run.result) for run in runs]))
        for name, unit, better, read in FIGURES
        if published.get(name) is not None
    ]
    if reference.tflops_per_gpu is not None:
        measured = mean_of([in_convention(run.result, reference.convention, "tflops_per_gpu") for run in runs])
        metrics.append(metric("tflops_per_gpu", "TFLOP/s", "higher", reference.tflops_per_gpu, measured))
    if reference.mfu is not None:
        measured = mean_of([_by_peak_of(run.result, reference) for run in runs])
        notes = (_conversion(runs, reference), _peaks(runs, reference))
        note = "; ".join(note for note in notes if note) or None
        metrics.append(metric("mfu", "%", "higher", 100 * reference.mfu, _percent(measured), note))
    return metrics


def _by_peak_of(result: Result, reference: Reference) -> float | None:
    """MFU (a fraction) of a result in the source's convention, of the peak that the source divides by."""
    value, own = in_convention(result, reference.convention, "mfu"), result.mfu.peak_tflops
    if value is None or own is None or reference.peak_tflops is None:
        return value
    return value * own / reference.peak_tflops


def _peaks(runs: Sequence[Measured], reference: Reference) -> str | None:
    """Name both peaks if the source divides by another one than the runs, or by one that it does not state."""
    own = runs[-1].result.mfu
    if own.peak_tflops is None or reference.peak_tflops == own.peak_tflops:
        return None
    ours = f"{own.peak_tflops:g} TFLOP/s ({own.peak_name})"
    if reference.peak_tflops is None:
        return f"the source does not state its peak; B is of {ours}"
    return f"both of the source's peak of {reference.peak_tflops:g} TFLOP/s; elsewhere the MFU of B is of {ours}"


def in_convention(result: Result, convention: Convention, figure: Figure) -> float | None:
    """MFU (a fraction) or TFLOP/s per GPU of a result under an attention convention.

    A value of the other convention is recomputed from the step time and the FLOPs per sample; None if these are
    unknown.
    """
    value = result.mfu.value if figure == "mfu" else result.tflops_per_gpu.mean
    own = result.mfu.convention
    if value is None or own is None or own == convention:
        return value if own is not None else None
    flops = result.flops_per_sample.full if convention == "full" else result.flops_per_sample.causal
    w, time = result.workload, result.step_time_s.mean
    if not (flops and w.global_batch_size and w.gpus and time):
        return None
    tflops = tflops_per_gpu(flops, w.global_batch_size, time, w.gpus)
    if figure == "tflops_per_gpu":
        return tflops
    return tflops / result.mfu.peak_tflops if result.mfu.peak_tflops else None


def metric(name: str, unit: str, better: Better, a: float | None, b: float | None, note: str | None = None) -> Metric:
    """One metric, with the change from A to B in percent if both are known."""
    change = 100 * (b / a - 1) if a and b is not None else None
    return Metric(name=name, unit=unit, better=better, a=a, b=b, change_percent=change, note=note)


def _compute(a: Sequence[Measured], b: Sequence[Measured]) -> list[Metric]:
    """TFLOP/s and MFU in the convention of A. None for a side with a value that cannot be converted."""
    convention = a[-1].result.mfu.convention
    if convention is None:
        return _printed(a, b)
    tflops = [mean_of([in_convention(run.result, convention, "tflops_per_gpu") for run in side]) for side in (a, b)]
    mfu = [_percent(mean_of([in_convention(run.result, convention, "mfu") for run in side])) for side in (a, b)]
    notes = _notes([run.result for run in (*a, *b)], convention)
    if any(figure is None for figure in mfu) and notes[0]:
        notes[0] = f"not {notes[0]}: the FLOPs per sample are unknown"
    lines = [
        metric("tflops_per_gpu", "TFLOP/s", "higher", tflops[0], tflops[1], "; ".join(notes[:1]) or None),
        metric("mfu", "%", "higher", mfu[0], mfu[1], "; ".join(note for note in notes if note) or None),
    ]
    return [line for line in lines if line.a is not None or line.b is not None]


def _printed(a: Sequence[Measured], b: Sequence[Measured]) -> list[Metric]:
    """TFLOP/s of sides whose convention is unknown, as their logs print them."""
    mean_a, mean_b = (mean_of([run.result.tflops_per_gpu.mean for run in side]) for side in (a, b))
    if mean_a is None or mean_b is None or any(run.result.mfu.convention for run in (*a, *b)):
        return []
    return [metric("tflops_per_gpu", "TFLOP/s", "higher", mean_a, mean_b, "as the logs print it")]


def _notes(results: Sequence[Result], convention: Convention) -> list[str]:
    """A note on the conversion (may be empty), then notes on why the MFU values may not be comparable."""
    others = {r.mfu.convention for r in results if r.mfu.convention not in (None, convention)}
    notes = [f"converted from {others.pop()} to {convention} attention" if others else ""]
    peaks = sorted({r.mfu.peak_tflops for r in results if r.mfu.peak_tflops})
    if len(peaks) > 1:
        notes.append("different peaks: " + " and ".join(f"{peak:g}" for peak in peaks))
    if len({r.mfu.formula for r in results}) > 1:
        notes.append("different FLOPs formulas")
    return notes


def _conversion(runs: Sequence[Measured], reference: Reference) -> str | None:
    own = runs[-1].result.mfu.convention
    if own is None or own == reference.convention:
        return None
    return f"converted from {own} to {reference.convention} attention, the convention of the source"


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def change_of_pairs(
    a: Sequence[Measured],
    b: Sequence[Measured],
    level: float,
    value: Callable[[Measured], float] = lambda run: run.mean_s,
) -> intervals.Change | None:
    """The change of the step time, or of another `value` > 0, over the pairs of both sides; None for fewer than two.

    A pair consists of the runs of both sides with the same number of one command.
    """
    sides = [{key: run for run in side if (key := _number(run)) is not None} for side in (a, b)]
    pairs = [(run_a, sides[1][key]) for key, run_a in sides[0].items() if key in sides[1]]
    order = [_created(run_b) < _created(run_a) for run_a, run_b in pairs]
    values = [(value(run_a), value(run_b)) for run_a, run_b in pairs]
    return intervals.change_of_pairs(values, order, level)


def unpaired(a: Sequence[Measured], b: Sequence[Measured]) -> int:
    """The number of runs of both sides without a partner on the other side."""
    sides = [{_number(run) for run in side} - {None} for side in (a, b)]
    return len(a) + len(b) - 2 * len(sides[0] & sides[1])


def _number(run: Measured) -> tuple[str, int] | None:
    pair = run.record.pair if isinstance(run, MeasuredRun) else None
    return None if pair is None else (pair.group, pair.number)


def _created(run: Measured) -> float:
    assert isinstance(run, MeasuredRun)
    return run.record.created


class Shape(Value, frozen=True):
    """The step times of one side in seconds: means over its runs of the median and the 95th percentile.

    `slowest` is the largest ratio of a step to the median of its run.
    """

    median_s: float
    p95_s: float
    slowest: float

    @property
    def tail(self) -> float:
        """The 95th percentile as a multiple of the median."""
        return self.p95_s / self.median_s


def shape(runs: Sequence[Measured]) -> Shape | None:
    """The shape of one side; None if a run has no measured steps."""
    medians, high, slowest = [], [], []
    for values in map(times, runs):
        middle = median_of(values)
        if not middle:
            return None
        medians.append(middle)
        high.append(percentile(values, 0.95))
        slowest.append(max(values) / middle)
    if not medians:
        return None
    return Shape(median_s=math.fsum(medians) / len(medians), p95_s=math.fsum(high) / len(high), slowest=max(slowest))


def percentile(values: Sequence[float], fraction: float) -> float:
    """The percentile of at least one value, interpolated between the two nearest."""
    ordered = sorted(values)
    place = fraction * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def shape_metrics(a: Sequence[Measured], b: Sequence[Measured]) -> Iterator[Metric]:
    """The rows of the table; none if a side has no steps."""
    shape_a, shape_b = shape(a), shape(b)
    if shape_a is None or shape_b is None:
        return
    yield metric("median_step_time", "s", "lower", shape_a.median_s, shape_b.median_s)
    yield metric("p95_step_time", "s", "lower", shape_a.p95_s, shape_b.p95_s)
    yield metric("p95_to_median", "ratio", "lower", shape_a.tail, shape_b.tail)
    yield metric("slowest_to_median", "ratio", "lower", shape_a.slowest, shape_b.slowest)


def hidden(verdict: Verdict, a: Sequence[Measured], b: Sequence[Measured], tolerance: float) -> str | None:
    """Why the means may not be called equivalent or faster: the median or the tail differs by more than `tolerance`.

    For `faster` only a slower median or tail counts.
    """
    shape_a, shape_b = shape(a), shape(b)
    if shape_a is None or shape_b is None or verdict not in ("equivalent", "faster"):
        return None
    for name, before, after in (
        ("median", shape_a.median_s, shape_b.median_s),
        ("95th percentile", shape_a.p95_s, shape_b.p95_s),
        ("tail (95th percentile / median)", shape_a.tail, shape_b.tail),
    ):
        change = after / before - 1
        if change > tolerance or (verdict == "equivalent" and change < -tolerance):
            unit = "" if name.startswith("tail") else " s"
            return (
                f"the mean hides a difference: the {name} of the step times changes by {100 * change:+.1f} % "
                f"(A {before:.4g}{unit}, B {after:.4g}{unit})"
            )
    return None


def disagreement(verdict: Verdict, a: Sequence[Measured], b: Sequence[Measured], tolerance: float) -> Iterator[str]:
    """A warning if B is slower by its mean, but not by its median: a few steps make the difference."""
    shape_a, shape_b = shape(a), shape(b)
    if shape_a is None or shape_b is None or verdict != "slower":
        return
    change = shape_b.median_s / shape_a.median_s - 1
    if change <= tolerance:
        yield f"the median of the step times changes by only {100 * change:+.1f} %: a part of the steps is slower"
