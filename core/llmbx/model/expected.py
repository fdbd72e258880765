"""What a run is expected to measure: a prediction, which is not a reference."""

from __future__ import annotations

from .base import Value


class Bounds(Value, frozen=True):
    """A value with its interval of `level`; all but the level are None if it is unknown."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = 0.9


class Expected(Value, frozen=True):
    """Predicted step time in seconds, tokens per second and GPU, and peak memory of a GPU in GB (10^9 bytes).

    `source` says what predicted it from what; `unknown_because` why there is no step time.
    """

    step_time_s: Bounds = Bounds()
    tokens_per_s_per_gpu: Bounds = Bounds()
    memory_gb: Bounds = Bounds()
    source: str | None = None
    unknown_because: str | None = None
