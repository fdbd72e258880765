"""The metrics of both sides. MFU and TFLOP/s are converted to one attention convention, and MFU to one peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from llmbx.api import Convention, Reference, Result, mean_of

from ..formulas import tflops_per_gpu
from .comparison import Better, Metric
from .measured import Measured

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
    found = [
        metric(name, unit, better, mean_of([read(run.result) for run in a]), mean_of([read(run.result) for run in b]))
        for name, unit, better, read in FIGURES
    ]
    return [*(m for m in found if m.a is not None or m.b is not None), *_compute(a, b)]


def published_metrics(reference: Reference, runs: Sequence[Measured]) -> list[Metric]:
    """The metrics of a published row and of runs. Values that are not published are left out."""
    known = {
        "step_time": reference.step_time_s,
        "tokens_per_s": reference.tokens_per_s,
        "days_per_1t_tokens": reference.days_per_1t_tokens,
    }
    found = [
        metric(name, unit, better, known[name], mean_of([read(run.result) for run in runs]))
        for name, unit, better, read in FIGURES
        if known.get(name) is not None
    ]
    if reference.tflops_per_gpu is not None:
        measured = mean_of([in_convention(run.result, reference.convention, "tflops_per_gpu") for run in runs])
        found.append(metric("tflops_per_gpu", "TFLOP/s", "higher", reference.tflops_per_gpu, measured))
    if reference.mfu is not None:
        measured = mean_of([_by_peak_of(run.result, reference) for run in runs])
        notes = (_conversion(runs, reference), _peaks(runs, reference))
        note = "; ".join(note for note in notes if note) or None
        found.append(metric("mfu", "%", "higher", 100 * reference.mfu, _percent(measured), note))
    return found


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
    one, two = (mean_of([run.result.tflops_per_gpu.mean for run in side]) for side in (a, b))
    if one is None or two is None or any(run.result.mfu.convention for run in (*a, *b)):
        return []
    return [metric("tflops_per_gpu", "TFLOP/s", "higher", one, two, "as the logs print it")]


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
