"""Compute the metrics of a run from its steps: window, step time, TFLOP/s, tokens/s, MFU. No input or output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from ..errors import PluginError
from ..model import Figures, Measure, Peak, RunSpec, Step
from ..model.flops import Flops
from ..model.result import FlopsPerSample, Loss, Mfu, Stability, StepTime, Tflops, Window
from . import measures, stats
from .judge import NO_JUDGE, Judge
from .window import choose, log_interval

ROUNDED = 0.005
"""The TFLOP/s in a log are too coarsely rounded if their last digit is more than this fraction of the value."""

DISAGREE = 0.01
"""Relative difference between the log's TFLOP/s and the computed value above which a warning is issued."""


def measure(
    spec: RunSpec | None,
    steps: Sequence[Step],
    flops: Flops | None = None,
    policy: str | None = None,
    first_number: int | None = None,
    declared: Sequence[Measure] = (),
    judge: Judge = NO_JUDGE,
) -> Figures:
    """Compute the metrics of a run, or with `spec` None those of a log without a specification.

    `policy` is the window; None: the specification's, else `auto`. `first_number` is the framework's number of the
    first step (0 or 1; None: the smallest number in the log). Profiled steps and the step that writes the profile are
    never measured. `declared` are the measures of the log format. `judge` decides whether the window is stable.
    """
    hidden = profiled_numbers(spec, steps, first_number)
    window, measured = choose(steps, policy or (spec.window if spec else "auto"), hidden)
    times = [step.time_s for step in measured if step.time_s is not None]
    step_time = StepTime(**{**stats.summary(times), "mean": _over_steps((s.time_s, s.covers) for s in measured)})
    rate = _tokens_per_s(spec, measured, step_time.mean)
    counted = sum(step.covers for step in measured if step.time_s is not None)
    tflops, warnings = _tflops(spec, measured, flops)
    named = measures.summarize(declared, measured)
    return Figures(
        window=window,
        steps_measured=counted,
        steps_seen=len(steps),
        step_time_s=step_time,
        stability=_stability(judge, window, steps, measured, hidden),
        tflops_per_gpu=tflops,
        tokens_per_s=rate,
        tokens_per_s_per_gpu=rate / spec.gpus if rate and spec else _printed_tokens(measured) if spec is None else None,
        mfu=_mfu(spec, step_time.mean, flops) if spec else Mfu(),
        days_per_1t_tokens=days_per_1t_tokens(rate) if rate else None,
        loss=_loss(steps),
        peak_memory_gb=_memory(steps),
        flops_per_sample=FlopsPerSample(full=flops.full, causal=flops.causal) if flops else FlopsPerSample(),
        measures=named,
        warnings=(*warnings, *_gaps(window, counted, measured), *measures.gaps(named, len(times))),
    )


def _stability(
    judge: Judge, window: Window, steps: Sequence[Step], measured: Sequence[Step], hidden: frozenset[int]
) -> Stability:
    """The judge's verdict on the window; unknown if the judge fails, since the figures are right without it."""
    try:
        return judge.stability(window.policy or "", steps, measured, hidden)
    except PluginError as error:
        return Stability(reason=f"not judged: {error}")


def _tokens_per_s(spec: RunSpec | None, measured: Sequence[Step], step_time_s: float | None) -> float | None:
    """Tokens per second of all GPUs; without a specification None unless the log counts the tokens of every step."""
    if not step_time_s:
        return None
    if spec is not None:
        return tokens_per_s(spec.model.sequence_length, spec.global_batch_size, step_time_s)
    tokens = [step.tokens * step.covers for step in measured if step.tokens is not None]
    seconds = sum((step.time_s or 0.0) * step.covers for step in measured)
    return sum(tokens) / seconds if len(tokens) == len(measured) and seconds > 0 else None


def _printed_tokens(measured: Sequence[Step]) -> float | None:
    """The log's tokens per second and GPU: all tokens of the steps that have a rate, divided by their time."""
    rates = [(s.tokens_per_s_per_gpu, s.time_s * s.covers) for s in measured if s.time_s and s.tokens_per_s_per_gpu]
    return _over_steps(rates)


def _over_steps(values: Iterable[tuple[float | None, float]]) -> float | None:
    """The mean of values, each with its weight, without those that are None."""
    pairs = [(value, weight) for value, weight in values if value is not None]
    if len({weight for _, weight in pairs}) <= 1:
        return stats.mean(value for value, _ in pairs)
    return math.fsum(value * weight for value, weight in pairs) / math.fsum(weight for _, weight in pairs)


def on_machine(figures: Figures, gpus: int | None, peak: Peak | None) -> Figures:
    """The figures of a log without a specification, on this number of GPUs of a type with this peak.

    The MFU is that of the log's TFLOP/s, whose formula is not known.
    """
    tflops, whole, each = figures.tflops_per_gpu.mean, figures.tokens_per_s, figures.tokens_per_s_per_gpu
    if gpus is not None:
        each = whole / gpus if each is None and whole is not None else each
        whole = each * gpus if whole is None and each is not None else whole
    use = figures.mfu
    if peak is not None:
        value = None if tflops is None else mfu(tflops, peak.tflops)
        use = Mfu(value=value, peak_tflops=peak.tflops, peak_name=peak.name)
    placed: Figures = figures.replace(
        tokens_per_s=whole,
        tokens_per_s_per_gpu=each,
        days_per_1t_tokens=days_per_1t_tokens(whole) if whole else None,
        mfu=use,
    )
    return placed


def _gaps(window: Window, counted: int, measured: Sequence[Step]) -> Iterator[str]:
    """Warnings about steps missing from an explicit window, and about the lines of a log with an interval."""
    interval = log_interval([step.number for step in measured])
    if any(step.covers > 1 for step in measured):
        spread = "; the deviation, minimum and maximum are those of the means"
        yield f"the log has the mean of every {interval if interval > 1 else measured[-1].covers} steps{spread}"
    elif interval > 1:
        yield f"the log has one line for {interval} steps: the steps of these lines are measured"
    elif counted and window.policy not in ("last", "auto") and window.span is not None and counted < window.span:
        yield f"only {counted} of the {window.span} steps of the window {window.policy} could be measured"


def profiled_numbers(spec: RunSpec | None, steps: Sequence[Step], first_number: int | None = None) -> frozenset[int]:
    """The log's numbers of the steps that a profile affects: the profiled ones and the one that writes the file."""
    if spec is None or spec.profile is None or not steps:
        return frozenset()
    base = min(step.number for step in steps) if first_number is None else first_number
    return frozenset(base + k for k in range(spec.profile.start, spec.profile.stop + 1))


def achieved_tflops(spec: RunSpec, step_time_s: float, flops: Flops) -> float:
    """Model TFLOP/s per GPU of a step of this run, in its recipe's convention."""
    return tflops_per_gpu(flops.by(spec.flops_convention), spec.global_batch_size, step_time_s, spec.gpus)


def _tflops(spec: RunSpec | None, measured: Sequence[Step], flops: Flops | None) -> tuple[Tflops, tuple[str, ...]]:
    """The log's TFLOP/s if they agree with the MFU's formula, else the formula's, with a warning that contains both.

    Those of a run must be printed in every measured step; a log without a run is the only source of its own.
    """
    printed = [(step.tflops_per_gpu, step.covers) for step in measured if step.tflops_per_gpu is not None]
    timed = [step for step in measured if step.time_s] if spec and flops else []
    ours = [(achieved_tflops(spec, s.time_s, flops), s.covers) for s in timed if spec and flops and s.time_s]
    enough = bool(printed) and (spec is None or len(printed) == len(measured))
    usable = enough and not _rounded_away(measured, printed)
    differs = _cross_check(spec, printed, ours) if spec and usable else ()
    if usable and not differs:
        return _summary(printed, "log"), ()
    return (_summary(ours, "recomputed"), differs) if ours else (Tflops(), ())


Weighted = Sequence[tuple[float, float]]
"""Values, each with its weight."""


def _summary(values: Weighted, source: Literal["log", "recomputed"]) -> Tflops:
    return Tflops(mean=_over_steps(values), std=stats.sample_std([value for value, _ in values]), source=source)


def _rounded_away(measured: Sequence[Step], printed: Weighted) -> bool:
    resolution = max((step.tflops_resolution or 0.0) for step in measured)
    return resolution > ROUNDED * (_over_steps(printed) or 0)


def _cross_check(spec: RunSpec, printed: Weighted, ours: Weighted) -> tuple[str, ...]:
    theirs, own = _over_steps(printed), _over_steps(ours)
    if theirs is None or own is None or abs(theirs - own) <= DISAGREE * own:
        return ()
    return (
        f"the log's {theirs:.1f} TFLOP/s per GPU differ by {100 * (theirs / own - 1):+.1f} % from the computed "
        f"{own:.1f} ({spec.flops_convention} attention): the framework counts FLOPs differently",
    )


def _mfu(spec: RunSpec, step_time_s: float | None, flops: Flops | None) -> Mfu:
    peak = spec.peak
    tflops = achieved_tflops(spec, step_time_s, flops) if step_time_s and flops else None
    return Mfu(
        value=mfu(tflops, peak.tflops) if tflops is not None and peak else None,
        formula=flops.formula if flops else None,
        convention=spec.flops_convention if flops else None,
        peak_tflops=peak.tflops if peak else None,
        peak_name=peak.name if peak else None,
    )


def _loss(steps: Sequence[Step]) -> Loss:
    losses = [step.loss for step in steps if step.loss is not None]
    return Loss(first=losses[0], last=losses[-1]) if losses else Loss()


def _memory(steps: Sequence[Step]) -> float | None:
    peaks = [step.peak_memory_bytes for step in steps if step.peak_memory_bytes is not None]
    return max(peaks) / 1e9 if peaks else None


SECONDS_PER_DAY = 86400


def tokens_per_s(sequence_length: int, global_batch_size: float, step_time_s: float) -> float:
    """Tokens per second of all GPUs: sequence length x global batch size / step time."""
    return sequence_length * global_batch_size / step_time_s


def days_per_1t_tokens(rate: float) -> float:
    """Days for 10^12 tokens at `rate` tokens per second."""
    return 1e12 / rate / SECONDS_PER_DAY


def tflops_per_gpu(flops_per_sample: float, global_batch_size: float, step_time_s: float, gpus: int) -> float:
    """Model TFLOP/s per GPU: FLOPs per sample x global batch size / (step time x GPUs)."""
    return flops_per_sample * global_batch_size / (step_time_s * gpus) / 1e12


def mfu(tflops: float, peak_tflops: float) -> float:
    """Model FLOPs utilization, a fraction: TFLOP/s per GPU / the GPU's peak."""
    return tflops / peak_tflops
