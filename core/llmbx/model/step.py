"""What a framework's log says, step by step."""

from __future__ import annotations

from .base import Value


class Step(Value, frozen=True):
    """One training step. What the log does not say is None."""

    number: int
    """The framework's own number of the step."""
    time_s: float | None = None
    """Seconds."""
    total: int | None = None
    """The number of the last step, where the log announces it."""
    tflops_per_gpu: float | None = None
    """TFLOP/s per GPU as the log prints it."""
    tflops_resolution: float | None = None
    """The printing step of that figure (0.1 for one decimal), so that one lost to rounding can be told."""
    tokens_per_s_per_gpu: float | None = None
    """Tokens a second and GPU as the log prints it."""
    loss: float | None = None
    """The loss; NaN and infinity as they are printed."""
    grad_norm: float | None = None
    """The gradient's norm."""
    learning_rate: float | None = None
    """The learning rate."""
    global_batch_size: int | None = None
    """Samples of the step."""
    tokens: int | None = None
    """Tokens of the step over all GPUs."""
    peak_memory_bytes: int | None = None
    """The highest memory of a GPU so far."""
    skipped: bool = False
    """Whether the optimizer skipped the step; it is not measured then."""
    attempt: int = 0
    """How often training started anew before it inside this one file, from 0."""


class Event(Value, frozen=True):
    """Something else that a log says."""

    kind: str
    """What it is: a word that core knows (see the kinds of event in docs/values.md), or one of the plugin's own."""
    text: str
    """The line that says so."""
    rank: int | None = None
    """Its writer, where known."""
    fatal: bool = False
    """Whether it explains a failure."""
    facts: dict[str, str | int | float] = {}
    """What else it says, by name."""
