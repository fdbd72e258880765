"""What a run is expected to measure: a prediction, which is not a reference."""

from __future__ import annotations

from .base import Value


class Bounds(Value, frozen=True):
    """A predicted value with its interval; all but the level are None if it is unknown."""

    value: float | None = None
    """The predicted value."""
    low: float | None = None
    """Lower end of the interval."""
    high: float | None = None
    """Upper end of the interval."""
    level: float = 0.9
    """Share of the cases in which the interval holds the measured value."""


class Expected(Value, frozen=True):
    """What a run is expected to measure."""

    step_time_s: Bounds = Bounds()
    """Step time in seconds."""
    tokens_per_s_per_gpu: Bounds = Bounds()
    """Tokens per second and GPU."""
    memory_gb: Bounds = Bounds()
    """Peak memory of a GPU in GB (10^9 bytes)."""
    source: str | None = None
    """What predicted it, and from what."""
    unknown_because: str | None = None
    """Why there is no step time."""
