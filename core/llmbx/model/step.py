"""Training steps and events, as read from a framework's log."""

from __future__ import annotations

from .base import Value


class Step(Value, frozen=True):
    """One training step. Values that the log does not contain are None."""

    number: int
    """The framework's own number of the step."""
    time_s: float | None = None
    """Duration in seconds."""
    total: int | None = None
    """Number of the last step, if the log announces it."""
    tflops_per_gpu: float | None = None
    """TFLOP/s per GPU as printed in the log."""
    tflops_resolution: float | None = None
    """Resolution of the printed TFLOP/s (0.1 for one decimal place), to detect values lost to rounding."""
    tokens_per_s_per_gpu: float | None = None
    """Tokens per second per GPU as printed in the log."""
    loss: float | None = None
    """Loss; NaN and infinity as printed."""
    grad_norm: float | None = None
    """Gradient norm."""
    learning_rate: float | None = None
    """Learning rate."""
    global_batch_size: int | None = None
    """Samples in the step."""
    tokens: int | None = None
    """Tokens in the step, over all GPUs."""
    peak_memory_bytes: int | None = None
    """Peak memory of a GPU so far, in bytes."""
    skipped: bool = False
    """Whether the optimizer skipped the step; skipped steps are not measured."""
    attempt: int = 0
    """Number of restarts of the training before this step in the same log, from 0."""


class Event(Value, frozen=True):
    """Anything in a log other than a step."""

    kind: str
    """Kind of event: one that core knows (see the kinds of event in docs/values.md), or one of the plugin's own."""
    text: str
    """The line of the log."""
    rank: int | None = None
    """Rank that wrote it, if known."""
    fatal: bool = False
    """Whether it explains a failure."""
    facts: dict[str, str | int | float] = {}
    """Further values, by name."""
