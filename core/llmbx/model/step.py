"""What a framework's log says, step by step."""

from __future__ import annotations

from .base import Value


class Step(Value, frozen=True):
    """One training step in the framework's own number. Seconds, TFLOP/s per GPU, bytes; None where the log is silent.

    `tflops_resolution` is the log's printing step (0.1 for one decimal), so that a figure lost to rounding can be told.
    `total` is the number of the last step as the log announces it, `tokens` those of the step over all GPUs, `attempt`
    the restarts inside one file from 0.
    """

    number: int
    time_s: float | None = None
    total: int | None = None
    tflops_per_gpu: float | None = None
    tflops_resolution: float | None = None
    tokens_per_s_per_gpu: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    learning_rate: float | None = None
    global_batch_size: int | None = None
    tokens: int | None = None
    peak_memory_bytes: int | None = None
    skipped: bool = False
    attempt: int = 0


class Event(Value, frozen=True):
    """Something else a log says: `out_of_memory`, `nccl_error`, `finished`, `checkpoint_saved`, `fact` …

    `fatal` events explain a failure; `text` is the line that says so, `rank` its writer where known. A `note` is
    told to the user at once. A `phase_time` has the `step_time_s` of a phase (`role`) that is not the measured one.
    """

    kind: str
    text: str
    rank: int | None = None
    fatal: bool = False
    facts: dict[str, str | int | float] = {}
