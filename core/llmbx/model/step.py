"""Training steps and events, as read from a framework's log."""

from __future__ import annotations

from .base import Value


class Step(Value, frozen=True, gc=False):  # a log has millions, and a step cannot be part of a cycle
    """One training step. Values that the log does not contain are None."""

    number: int
    """The framework's own number of the step."""
    time_s: float | None = None
    """Duration in seconds."""
    covers: int = 1
    """Number of steps, this one the last, that `time_s` and the rates are the mean of; llmbx sets it by
    `Prints.interval_means`.
    """
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
    loss_scale: float | None = None
    """Factor of the loss, against underflow of the gradients."""
    global_batch_size: int | None = None
    """Samples in the step."""
    consumed_samples: int | None = None
    """Samples consumed since the start of the training, this step included."""
    tokens: int | None = None
    """Tokens in the step, over all GPUs."""
    peak_memory_bytes: int | None = None
    """Peak memory of a GPU so far, in bytes."""
    skipped: bool = False
    """Whether the optimizer skipped the step; skipped steps are not measured."""
    attempt: int = 0
    """Number of restarts of the training before this step in the same log, from 0."""
    printed_at: float | None = None
    """Time printed on the step's line, in seconds. Only differences have a meaning: the log has no time zone."""
    measures: dict[str, float] = {}
    """Values of the measures that the parser declares, by name."""


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
    node: str | None = None
    """Node that it names or comes from, if known."""
    time: str | None = None
    """When it happened, as the line states it: `2026-03-04T08:10:08`, or `03-04T08:10:08` without a year."""


class Prints(Value, frozen=True):
    """What a log format prints, so that a missing value is a fault and not a property of the format."""

    fields: tuple[str, ...] = ()
    """Fields of `Step` that the line of every step has."""
    finished: bool = False
    """Whether the framework prints a line when training has ended (an event of kind `finished`)."""
    every_rank: bool = False
    """Whether every rank prints every step: the times of a step differ, its loss does not."""
    cross_entropy: bool = False
    """Whether the loss is the mean cross entropy over the vocabulary in nats, about ln(vocabulary) at first."""
    interval_means: bool = False
    """Whether the times and rates of a log with the line of every n-th step are means over these n steps; else they are
    those of the one step.
    """
    zero_loss: bool = False
    """Whether the loss may be 0 because the data makes it so."""
