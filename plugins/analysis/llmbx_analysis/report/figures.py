"""The figures and measures of a cell, with unit, interval, and a formula that contains its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llmbx.api import (
    Fact,
    GpuType,
    Result,
    Scalar,
    mean_of,
    plural,
    summary_of,
)
from llmbx.api.verbs import format_number
from llmbx_verdict.statistics import intervals

from ..compare import Measured
from ..compare.judgement import measure_interval, value
from ..compare.measured import step_time, times
from ..formulas import days_per_1t_tokens
from .cells import Cell, RunData

AS_LOGGED = "as logged"
"""The unit of values that frameworks print without one, such as the loss."""


def figures(cell: Cell) -> tuple[Fact, ...]:
    """The figures of a cell, over its valid runs. Without any, the figures of the newest run are mostly unknown."""
    runs = cell.valid_runs
    if not runs:
        return _unmeasured(cell.newest)
    results = [run.result for run in runs]
    time = step_time([run.measured for run in runs], intervals.LEVEL)
    return (
        _step_time(runs, time),
        *_expected(cell),
        *_spread(runs),
        *_rates(results, time),
        _tflops(results, time),
        _mfu(results, time),
        _days(results, time),
        *_others(runs),
        *measure_facts([run.measured for run in runs]),
    )


def by_name(cell: Cell) -> dict[str, Fact]:
    """The figures of a cell by name; a measure never hides a figure of llmbx of the same name."""
    return {figure.name: figure for figure in reversed(figures(cell))}


def describe_interval(interval: intervals.Interval, runs: int) -> str:
    """Describe an interval: `95 % interval over 34 steps (correlated, equivalent to 20 independent ones)`."""
    if interval.method == "exact":
        return "a single step: its noise is unknown"
    level = f"{100 * interval.level:g} % interval over {interval.count}"
    if interval.method == "median":
        return f"{level} steps"
    if interval.method == "ar1":
        effective = max(1, round(interval.effective_count or 1))
        return f"{level} steps (correlated, equivalent to {effective} independent ones)"
    return f"{level} {'runs' if runs > 1 else 'steps'} (Student's t)"


def _step_time(runs: Sequence[RunData], time: intervals.Interval) -> Fact:
    window = runs[-1].result.window
    over = f"mean over {runs[-1].result.steps_measured} steps of the window {window.first}-{window.last}"
    if window.excluded:
        over += f" except {', '.join(map(str, window.excluded))}"
    if len(runs) > 1:
        over = f"mean of the means of {len(runs)} runs, each a {over}"
    return Fact(name="step time", value=time.mean, unit="s", formula=over, **_interval(time, len(runs)))


def _interval(time: intervals.Interval, runs: int) -> dict[str, Any]:
    of = describe_interval(time, runs)
    if time.method == "exact":
        return {"of": of}
    return {"low": max(0.0, time.low), "high": time.high, "of": of}


def _expected(cell: Cell) -> list[Fact]:
    """The predictions from before the start, unless a published figure is compared."""
    if any(comparison.a.kind == "reference" for comparison in cell.comparisons):
        return []
    expected = cell.valid_runs[-1].result.expected
    predicted = (
        ("expected step time", expected.step_time_s, "s"),
        ("expected peak memory", expected.memory_gb, "GB per GPU"),
    )
    return [
        Fact(
            name=name,
            value=figure.value,
            unit=unit,
            formula=f"prediction, no reference: {expected.source}",
            low=figure.low,
            high=figure.high,
            of=f"{100 * figure.level:g} % interval",
        )
        for name, figure, unit in predicted
        if figure.value is not None
    ]


def _spread(runs: Sequence[RunData]) -> list[Fact]:
    """The spread of the measured steps of all repeats."""
    seconds = [time for run in runs for time in times(run.measured)]
    summary, n = summary_of(seconds), len(seconds)
    few = "needs at least two steps" if n < 2 else None
    mean, std = summary["mean"], summary["std"]
    variation = std / abs(mean) if mean and std is not None else None
    formulas = {
        "median": f"middle of {n} step times",
        "std": f"sample standard deviation of {n} step times (n - 1)",
        "min": f"smallest of {n}",
        "max": f"largest of {n}",
    }
    names = {"median": "median", "std": "standard deviation", "min": "fastest step", "max": "slowest step"}
    facts = [
        Fact(name=names[key], value=summary[key], unit="s", formula=how, note=few if key == "std" else None)
        for key, how in formulas.items()
    ]
    percent = None if variation is None else 100 * variation
    cv = Fact(name="variation", value=percent, unit="%", formula="standard deviation / mean", note=few)
    return [*facts[:2], cv, *facts[2:]]


def _rates(results: Sequence[Result], time: intervals.Interval) -> list[Fact]:
    w, last = results[-1].workload, results[-1]
    each = "rank" if w.gpu_type == "cpu" else "GPU"
    tokens = w.sequence_length * w.global_batch_size if w.sequence_length and w.global_batch_size else None
    product = f"sequence length {w.sequence_length} tokens × global batch size {w.global_batch_size}"
    rate = _per_time(tokens, time)
    per = _per_time(tokens / w.gpus if tokens and w.gpus else None, time)
    note = None if tokens else "sequence length or global batch size is unknown"
    return [
        Fact(name="throughput", unit="tokens/s", note=note,
             formula=f"{product} / step time {format_number(time.mean)} s",
             **_value_or(rate, last.tokens_per_s)),
        Fact(name=f"throughput per {each}", unit=f"tokens/s/{each}",
               formula=f"throughput / {plural(w.gpus, each + 's')}", note=note,
               **_value_or(per, last.tokens_per_s_per_gpu)),
    ]  # fmt: skip


def _tflops(results: Sequence[Result], time: intervals.Interval) -> Fact:
    last = results[-1]
    name, unit = "compute per GPU" if last.workload.gpu_type != "cpu" else "compute per rank", "TFLOP/s"
    value = mean_of(r.tflops_per_gpu.mean for r in results)
    if last.tflops_per_gpu.source == "log":
        return Fact(name=name, value=value, unit=unit, formula="mean of the values in the log over the window")
    if value is None:
        return Fact(name=name, value=None, unit=unit, note="the log has no TFLOP/s and there is no FLOPs formula")
    return Fact(name=name, value=value, unit=unit, formula=f"{_flops_formula(last, None)} / 10^12, mean over the steps")


def _mfu(results: Sequence[Result], time: intervals.Interval) -> Fact:
    last, w = results[-1], results[-1].workload
    value = _at_mean_step_time(last.mfu.value, last, time)
    if value is None:
        has_peak = last.mfu.peak_tflops is not None
        unset = GpuType.how_to_set_peak(w.gpu_type or "?", w.dtype or "?")
        why = "the FLOPs per sample are unknown" if has_peak else unset
        return Fact(name="MFU", value=None, unit="%", note=why)
    peak = (
        f"{format_number(last.mfu.peak_tflops)} TFLOP/s ({last.mfu.peak_name})"
        if last.mfu.peak_tflops
        else "an unknown peak"
    )
    formula = (
        f"{_flops_formula(last, time)} / peak {peak}; FLOPs by {last.mfu.formula}, {last.mfu.convention} attention"
    )
    if time.method == "exact":
        return Fact(name="MFU", value=100 * value, unit="%", formula=formula)
    scale = 100 * value * time.mean
    return Fact(name="MFU", value=100 * value, unit="%", formula=formula,
                  low=scale / time.high, high=scale / time.low if time.low > 0 else None)  # fmt: skip


def _at_mean_step_time(value: float | None, result: Result, time: intervals.Interval) -> float | None:
    """Scale a rate of one run to the mean step time of all repeats."""
    own = result.step_time_s.mean
    return None if value is None or own is None else value * own / time.mean


def _flops_formula(result: Result, time: intervals.Interval | None) -> str:
    """The formula of TFLOP/s, for a mean step time or (None) for each step."""
    w, by = result.workload, result.mfu.convention
    flops = result.flops_per_sample.causal if by == "causal" else result.flops_per_sample.full
    sample = f"{flops:.4g} FLOPs per sample" if flops else "model FLOPs per sample"
    seconds = f"{format_number(time.mean)} s" if time is not None else "step time"
    each = "ranks" if w.gpu_type == "cpu" else "GPUs"
    return f"{sample} × global batch size {w.global_batch_size} / ({seconds} × {plural(w.gpus, each)})"


def _days(results: Sequence[Result], time: intervals.Interval) -> Fact:
    last = results[-1]
    per_second = _at_mean_step_time(last.tokens_per_s, last, time)
    value = days_per_1t_tokens(per_second) if per_second else None
    rate = f"{format_number(per_second)} tokens/s" if per_second else "tokens/s"
    note = None
    if value is None:
        note = "the throughput is unknown"
    elif not last.comparable:
        note = "not a benchmark result, see the verdict"
    return Fact(name="time for 1T tokens", value=value, unit="days", formula=f"10^12 / {rate} / 86400 s", note=note)


def _others(runs: Sequence[RunData]) -> list[Fact]:
    """Figures of the newest run that are not computed from the step time."""
    last = runs[-1].result
    return [*_counts(last), *_loss(last), *_memory(last), *_phases(last), *_timing(last)]


def _unmeasured(run: RunData) -> tuple[Fact, ...]:
    """The figures of a run without a valid step time. Unknown figures have the reason as note."""
    result = run.result
    why = "see the verdict" if result.status != "completed" else result.window.reason or "no step was measured"
    names = (("step time", "s"), ("throughput", "tokens/s"), ("compute per GPU", "TFLOP/s"), ("MFU", "%"))
    unknown = [Fact(name=name, value=None, unit=unit, note=f"no valid data: {why}") for name, unit in names]
    return (*unknown, *_counts(result), *_loss(result), *_memory(result), *_timing(result))


def _counts(r: Result) -> list[Fact]:
    window = f"window {r.window.policy}: {r.window.reason}" if r.window.reason else f"window {r.window.policy}"
    return [
        Fact(name="steps measured", value=r.steps_measured, unit="steps", formula=window),
        Fact(name="steps in the log", value=r.steps_seen, unit="steps", formula="number of steps in the log"),
    ]


def _loss(r: Result) -> list[Fact]:
    has_loss = r.loss.first is not None
    note = None if has_loss else "the log has no loss"
    return [
        Fact(name="first loss", value=r.loss.first, unit=AS_LOGGED, formula="first value in the log", note=note),
        Fact(name="last loss", value=r.loss.last, unit=AS_LOGGED, formula="last value in the log", note=note),
    ]


def _memory(r: Result) -> list[Fact]:
    note = None if r.peak_memory_gb is not None else "the log has no memory usage"
    formula = "largest value in the log, per GPU (10^9 bytes)"
    return [Fact(name="peak memory", value=r.peak_memory_gb, unit="GB", formula=formula, note=note)]


def _phases(r: Result) -> list[Fact]:
    return [
        Fact(name=f"step time of phase {role}", value=seconds, unit="s", formula="over the steps of the phase")
        for role, seconds in r.phase_step_time_s.items()
    ]


def _timing(r: Result) -> list[Fact]:
    t = r.timing
    rows = (
        ("queue time", t.queue_s, "from submission to the start of the ranks"),
        ("setup time", t.prepare_s, "preparation of the image or environment"),
        ("time to first step", t.first_step_s, "from the start to the end of the first step"),
        ("wall time", t.total_s, "from the start of the ranks to their end"),
    )
    facts = [
        Fact(name=name, value=value, unit="s", formula=formula, note=None if value is not None else "not recorded")
        for name, value, formula in rows
    ]
    if r.gpu_hours is not None:
        seconds = format_number(r.gpu_hours * 3600 / r.workload.gpus) if r.workload.gpus else "?"
        attempts = f" of {r.attempt + 1} attempts" if r.attempt else ""
        how = f"{r.workload.gpus} GPUs × {seconds} s{attempts} / 3600"
        facts.append(Fact(name="GPU time", value=r.gpu_hours, unit="GPU-hours", formula=how))
    return facts


def _per_time(amount: float | None, time: intervals.Interval) -> dict[str, Any] | None:
    """amount / time with its interval; None if the amount is unknown."""
    if amount is None:
        return None
    if time.method == "exact" or time.low <= 0:
        return {"value": amount / time.mean}
    return {"value": amount / time.mean, "low": amount / time.high, "high": amount / time.low}


def _value_or(value: dict[str, Any] | None, otherwise: float | None) -> dict[str, Any]:
    return value if value is not None else {"value": otherwise}


def measure_facts(runs: Sequence[Measured]) -> Iterator[Fact]:
    """Two figures for each count (the rate and the mean per step), one for each other measure; of valid runs.

    With repeats a figure is the mean over the runs; if a run lacks the measure, it is unknown.
    """
    for name in _names(runs):
        newest = next(run.result.measures[name] for run in reversed(runs) if name in run.result.measures)
        title = name.replace("_", " ")
        over = f"{newest.steps} steps" if len(runs) == 1 else f"{len(runs)} runs"
        over += f"; {newest.help}" if newest.help else ""
        if newest.kind == "count":
            formula = f"sum of {title} / sum of the step times, over {over}"
            yield _fact(f"{title} per second", f"{newest.unit}/s", formula, runs, name)
            mean = mean_of([measure.mean if (measure := run.result.measures.get(name)) else None for run in runs])
            yield Fact(name=f"{title} per step", value=mean, unit=newest.unit, formula=f"mean over {over}")
        else:
            yield _fact(title, newest.unit, f"mean over {over}", runs, name)


def measure_columns(result: Result) -> dict[str, Scalar]:
    """The measures of a run as columns of CSV, by their names in `result.json`."""
    return {f"measures.{name}.{field}": number for name, measure in result.measures.items()
            for field, number in measure.numbers.items()}  # fmt: skip


def _fact(title: str, unit: str, formula: str, runs: Sequence[Measured], name: str) -> Fact:
    if any(value(run, name) is None for run in runs):
        return Fact(name=title, value=None, unit=unit, note="no measured step of a run has a value")
    interval = measure_interval(runs, name, intervals.LEVEL)
    if interval.method == "exact":
        return Fact(name=title, value=interval.mean, unit=unit, formula=formula)
    return Fact(name=title, value=interval.mean, unit=unit, formula=formula, low=interval.low, high=interval.high)


def _names(runs: Sequence[Measured]) -> list[str]:
    return [*dict.fromkeys(name for run in runs for name in run.result.measures)]
