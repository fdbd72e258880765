"""The columns of the history: the fields of a result by dotted name, and those of a listing."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from llmbx.api import UsageError, did_you_mean

Kind = Literal["text", "number", "count", "flag", "date", "words"]


class Column(NamedTuple):
    """What a column holds; the unit is empty for texts, dates and numbers without a dimension."""

    kind: Kind
    unit: str
    meaning: str


_EXPECTED = {
    f"expected.{figure}.{end}": Column("number", unit, f"{words} {title}")
    for figure, unit, title in (
        ("step_time_s", "s", "step time"),
        ("tokens_per_s_per_gpu", "tokens/s", "throughput per GPU"),
        ("memory_gb", "GB", "peak memory of a GPU"),
    )
    for end, words in (
        ("value", "predicted"),
        ("low", "lower end of the predicted"),
        ("high", "upper end of the predicted"),
    )
}

COLUMNS: dict[str, Column] = {
    "created": Column("date", "", "when the run was created"),
    "id": Column("text", "", "short id"),
    "run_id": Column("text", "", "long id, the name of the run's folder"),
    "status": Column("text", "", "status of the result, or of the job while the run is unfinished"),
    "workload.name": Column("text", "", "workload"),
    "workload.plugin": Column("text", "", "plugin of the workload"),
    "workload.size": Column("text", "", "model size"),
    "workload.dtype": Column("text", "", "data type"),
    "workload.gpu_type": Column("text", "", "GPU type"),
    "workload.gpus": Column("count", "GPUs", "number of GPUs; on a CPU, of ranks"),
    "workload.layout_of": Column("text", "", "GPU type whose row was borrowed"),
    "workload.scaled_from": Column("count", "GPUs", "number of GPUs of the row that was scaled"),
    "tags": Column("words", "", "tags"),
    "data_valid": Column("flag", "", "whether the measured data is complete and possible"),
    "comparable": Column("flag", "", "whether the result can be compared with published figures"),
    "profiled": Column("flag", "", "whether steps were profiled"),
    "traced": Column("flag", "", "whether communication was traced"),
    "step_time_s.mean": Column("number", "s", "mean step time over the window"),
    "step_time_s.std": Column("number", "s", "sample standard deviation of the step time"),
    "step_time_s.median": Column("number", "s", "median step time"),
    "step_time_s.min": Column("number", "s", "shortest step"),
    "step_time_s.max": Column("number", "s", "longest step"),
    "stability.verdict": Column("text", "", "whether the mean of the window represents its steps"),
    "stability.reason": Column("text", "", "the numbers behind the verdict"),
    "tflops_per_gpu.mean": Column("number", "TFLOP/s", "mean rate of one GPU"),
    "tflops_per_gpu.std": Column("number", "TFLOP/s", "sample standard deviation of the rate"),
    "tflops_per_gpu.source": Column("text", "", "log or recomputed"),
    "tokens_per_s": Column("number", "tokens/s", "throughput of all GPUs"),
    "tokens_per_s_per_gpu": Column("number", "tokens/s", "throughput of one GPU"),
    "mfu.value": Column("number", "fraction", "model FLOPs utilization, 0 to 1"),
    "mfu.formula": Column("text", "", "formula of the FLOPs, with its version"),
    "mfu.convention": Column("text", "", "convention of counting attention"),
    "mfu.peak_tflops": Column("number", "TFLOP/s", "dense peak of one GPU"),
    "mfu.peak_name": Column("text", "", "name of the peak"),
    "days_per_1t_tokens": Column("number", "days", "time to train on 10^12 tokens"),
    "window.first": Column("count", "", "number of the first measured step"),
    "window.last": Column("count", "", "number of the last measured step, inclusive"),
    "window.policy": Column("text", "", "window that was asked for"),
    "window.reason": Column("text", "", "reason for the choice of the window"),
    "steps_measured": Column("count", "steps", "steps in the window"),
    "steps_seen": Column("count", "steps", "steps in the log"),
    "loss.first": Column("number", "", "first loss in the log"),
    "loss.last": Column("number", "", "last loss in the log"),
    "peak_memory_gb": Column("number", "GB", "largest memory of one GPU"),
    "recipe": Column("text", "", "recipe"),
    "runtime": Column("text", "", "runtime"),
    "launcher": Column("text", "", "launcher"),
    "job_id": Column("text", "", "job id of the launcher"),
    "group": Column("text", "", "group of repeats that the run belongs to"),
    "attempt": Column("count", "", "number of the last attempt, from 0"),
    "exit_code": Column("count", "", "exit code of the job"),
    "cause": Column("text", "", "reason for the status"),
    "cause_rank": Column("count", "", "rank that failed first"),
    "cause_node": Column("text", "", "node of the first failure"),
    "doubt": Column("text", "", "why the rank is not sure"),
    "image.ref": Column("text", "", "image or environment"),
    "image.digest": Column("text", "", "digest of the image"),
    "workload.sequence_length": Column("count", "tokens", "sequence length"),
    "workload.global_batch_size": Column("count", "samples", "global batch size"),
    "workload.micro_batch_size": Column("count", "samples", "micro batch size"),
    "workload.parallelism.tp": Column("count", "", "tensor parallelism"),
    "workload.parallelism.pp": Column("count", "", "pipeline parallelism"),
    "workload.parallelism.cp": Column("count", "", "context parallelism"),
    "workload.parallelism.ep": Column("count", "", "expert parallelism"),
    "workload.parallelism.etp": Column("count", "", "expert tensor parallelism"),
    "workload.parallelism.dp": Column("count", "", "data parallelism"),
    "workload.parallelism.vp": Column("count", "", "virtual pipeline stages"),
    "workload.parallelism.fsdp": Column("count", "", "fully sharded data parallelism"),
    "flops_per_sample.full": Column("number", "FLOP", "model FLOPs of one sample, full attention"),
    "flops_per_sample.causal": Column(
        "number", "FLOP", "model FLOPs of one sample, causal attention"
    ),
    "timing.queue_s": Column("number", "s", "time in the queue"),
    "timing.prepare_s": Column("number", "s", "time to prepare the image or environment"),
    "timing.first_step_s": Column(
        "number", "s", "time from the start to the end of the first step"
    ),
    "timing.outside_steps_s": Column(
        "number", "s", "time between the first and the last step that is in no step"
    ),
    "timing.total_s": Column(
        "number", "s", "time from the start to the end, after queue and preparation"
    ),
    **_EXPECTED,
    "expected.source": Column("text", "", "what the predictions are from"),
    "expected.unknown_because": Column("text", "", "why nothing is predicted"),
    "gpu_hours": Column("number", "GPU hours", "GPU time of all attempts"),
    "hardware.mfu": Column("number", "fraction", "MFU by the peak at the clock that the GPUs had"),
    "hardware.clock_mhz": Column("number", "MHz", "mean clock of the GPUs over the window"),
    "hardware.peak_clock_mhz": Column("number", "MHz", "clock of the data sheet's peak"),
    "hardware.because": Column("text", "", "why something of the hardware is unknown"),
    "hardware.power_w": Column("number", "W", "mean power of a GPU over the window"),
    "hardware.joules_per_step": Column("number", "J", "energy of all GPUs a step"),
    "hardware.tokens_per_joule": Column("number", "tokens/J", "tokens per joule of the GPUs"),
    "hardware.slowed_by_power": Column(
        "number", "fraction", "share of the time in which the power limit lowered the clock"
    ),
    "hardware.slowed_by_heat": Column(
        "number", "fraction", "share of the time in which the temperature lowered the clock"
    ),
    "stragglers.ranks": Column("count", "ranks", "ranks whose steps were measured"),
    "stragglers.steps": Column("count", "steps", "steps that all of these ranks measured"),
    "stragglers.before_s": Column("number", "s", "mean time of a rank before the ranks meet"),
    "stragglers.slowest_before_s": Column("number", "s", "the same of the slowest rank"),
    "stragglers.wait_s": Column("number", "s", "mean wait of a rank where they meet"),
    "stragglers.slowest_rank": Column("count", "", "rank for which the others wait"),
    "stragglers.slowest_node": Column("text", "", "its node"),
    "stragglers.lost_s_per_step": Column(
        "number", "s", "how long the others wait for it in a step"
    ),
    "nodes": Column(
        "text",
        "",
        "nodes, their ranks and the UUIDs of the ranks' GPUs, as JSON: {NODE: {RANK: UUID}}",
    ),
    "user": Column("text", "", "user who started the run"),
    "llmbx_version": Column("text", "", "version of llmbx that started the run"),
    "experiment": Column("text", "", "experiment, the last folder of the run"),
    "measures": Column(
        "text", "", "measures that the log format declares, by name, as JSON with their units"
    ),
}
"""All columns by name. Names with a dot, and most others, are those of `result.json`.

`measures` has the object of that name as JSON text; queries name its members: measures.NAME.mean.
"""

MEASURE_NAME = "[a-z][a-z0-9_]{0,39}"
MEASURE_NUMBERS = ("mean", "std", "median", "min", "max", "steps", "per_second")
"""The numbers of a measure in `result.json`."""

MEASURE = re.compile(rf"measures\.({MEASURE_NAME})\.({'|'.join(MEASURE_NUMBERS)}|unit|kind)")
"""The column of a measure."""

SHORT = {
    "workload": "workload.name",
    "plugin": "workload.plugin",
    "size": "workload.size",
    "dtype": "workload.dtype",
    "gpu_type": "workload.gpu_type",
    "gpus": "workload.gpus",
    "scale": "workload.gpus",
    "date": "created",
    "tag": "tags",
    "step_time_s": "step_time_s.mean",
    "step_time_std_s": "step_time_s.std",
    "tflops_per_gpu": "tflops_per_gpu.mean",
    "mfu": "mfu.value",
    "loss": "loss.last",
    "image": "image.ref",
    "stability": "stability.verdict",
    "sequence_length": "workload.sequence_length",
    "gbs": "workload.global_batch_size",
    "global_batch_size": "workload.global_batch_size",
    "mbs": "workload.micro_batch_size",
    "micro_batch_size": "workload.micro_batch_size",
    "queue_s": "timing.queue_s",
    "total_s": "timing.total_s",
    **{
        letter: f"workload.parallelism.{letter}"
        for letter in ("tp", "pp", "cp", "ep", "etp", "dp", "vp", "fsdp")
    },
}
"""Aliases of columns, including those used by `llmbx jobs`."""


def full_name(name: str) -> str | None:
    """The column with this name or alias; None if unknown."""
    return name if name in COLUMNS or MEASURE.fullmatch(name) else SHORT.get(name)


def column(name: str, option: str) -> str:
    """The column with this name or alias. Raises `UsageError` with the closest one."""
    full = full_name(name)
    if full is None:
        raise unknown(name, option)
    return full


def unknown(name: str, option: str) -> UsageError:
    """The error for a name that no column has, with the closest one."""
    near = did_you_mean(name, (*COLUMNS, *SHORT))
    hint = near if near.startswith(" (did") else " (see `llmbx jobs --help` for the columns)"
    return UsageError(f"{option}: no column named '{name}'{hint}")


def kind_of(column: str) -> Kind:
    """The kind of a column, also of one of a measure."""
    match = MEASURE.fullmatch(column)
    if match is None:
        return COLUMNS[column].kind
    if match[2] in ("unit", "kind"):
        return "text"
    return "count" if match[2] == "steps" else "number"


def expression(column: str) -> str:
    """The SQL of a column. That of a measure is a member of the JSON text in `measures`."""
    match = MEASURE.fullmatch(column)
    if match is None:
        return quoted(column)
    return f"json_extract(\"measures\", '$.{match[1]}.{match[2]}')"


def quoted(column: str) -> str:
    """A column name quoted for SQL."""
    return f'"{column}"'
