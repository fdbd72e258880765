"""The figures that are exported, with their names and units in metrics; docs/interfaces.md is made from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Row = Mapping[str, Any]
"""A run: the columns of the history by name, as `llmbx.load_runs` returns them."""


class Measure(NamedTuple):
    """A metric: its name, the column it is made from, the factor to its base unit, the unit, and what it is."""

    name: str
    column: str
    factor: float
    unit: str
    help: str


MEASURES = (
    Measure("llmbx_step_time_mean_seconds", "step_time_s.mean", 1, "seconds", "Mean step time over the window."),
    Measure("llmbx_step_time_stddev_seconds", "step_time_s.std", 1, "seconds",
            "Sample standard deviation of the step time."),
    Measure("llmbx_step_time_median_seconds", "step_time_s.median", 1, "seconds", "Median step time."),
    Measure("llmbx_step_time_min_seconds", "step_time_s.min", 1, "seconds", "Shortest step."),
    Measure("llmbx_step_time_max_seconds", "step_time_s.max", 1, "seconds", "Longest step."),
    Measure("llmbx_gpu_flops_per_second", "tflops_per_gpu.mean", 1e12, "flops_per_second",
            "Mean rate of one GPU in FLOP/s."),
    Measure("llmbx_tokens_per_second", "tokens_per_s", 1, "tokens_per_second", "Throughput of all GPUs."),
    Measure("llmbx_gpu_tokens_per_second", "tokens_per_s_per_gpu", 1, "tokens_per_second", "Throughput of one GPU."),
    Measure("llmbx_mfu_ratio", "mfu.value", 1, "ratio", "Model FLOPs utilization, 0 to 1."),
    Measure("llmbx_trillion_tokens_seconds", "days_per_1t_tokens", 86400, "seconds",
            "Time to train on 10^12 tokens."),
    Measure("llmbx_loss_first", "loss.first", 1, "", "First loss in the log."),
    Measure("llmbx_loss_last", "loss.last", 1, "", "Last loss in the log."),
    Measure("llmbx_gpu_peak_memory_bytes", "peak_memory_gb", 1e9, "bytes", "Largest memory of one GPU."),
    Measure("llmbx_steps_measured", "steps_measured", 1, "", "Steps in the window."),
    Measure("llmbx_steps_seen", "steps_seen", 1, "", "Steps in the log."),
    Measure("llmbx_queue_seconds", "timing.queue_s", 1, "seconds", "Time in the queue."),
    Measure("llmbx_prepare_seconds", "timing.prepare_s", 1, "seconds",
            "Time to prepare the image or environment."),
    Measure("llmbx_first_step_seconds", "timing.first_step_s", 1, "seconds",
            "Time from the start to the end of the first step."),
    Measure("llmbx_outside_steps_seconds", "timing.outside_steps_s", 1, "seconds",
            "Time between the first and the last step that is in no step."),
    Measure("llmbx_run_seconds", "timing.total_s", 1, "seconds",
            "Time from the start to the end, after queue and preparation."),
    Measure("llmbx_gpu_time_seconds", "gpu_hours", 3600, "seconds", "GPU time of all attempts."),
)  # fmt: skip

CREATED = Measure("llmbx_run_timestamp_seconds", "created", 1, "seconds", "Creation of the run in Unix time.")

LABELS = {
    "id": "id", "workload": "workload.name", "plugin": "workload.plugin", "size": "workload.size",
    "dtype": "workload.dtype", "gpu_type": "workload.gpu_type", "gpus": "workload.gpus", "status": "status",
    "valid": "data_valid", "comparable": "comparable", "stability": "stability.verdict",
}  # fmt: skip
"""Labels of every sample -> columns."""

INFO = "llmbx_run_info"
INFO_HELP = "Further facts of a run; the value is 1."
INFO_LABELS = {
    "run_id": "run_id", "recipe": "recipe", "runtime": "runtime", "launcher": "launcher", "job_id": "job_id",
    "user": "user", "image": "image.ref", "image_digest": "image.digest", "window": "window.policy",
    "mfu_convention": "mfu.convention", "mfu_peak": "mfu.peak_name", "llmbx_version": "llmbx_version", "tags": "tags",
}  # fmt: skip
"""Labels of `INFO` beside `LABELS` -> columns."""


def labels(row: Row, columns: Mapping[str, str]) -> dict[str, str]:
    """The known values of these columns as texts; an unknown value has no label."""
    texts = {label: text(row[column]) for label, column in columns.items()}
    return {label: value for label, value in texts.items() if value}


def text(value: Any) -> str:
    """One value of a row as text; empty if it is unknown."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(value) if isinstance(value, tuple) else str(value)


def known(row: Row) -> Iterator[tuple[Measure, float]]:
    """The measures that the run has, in base units."""
    for measure in MEASURES:
        value = row[measure.column]
        if value is not None:
            yield measure, value * measure.factor
