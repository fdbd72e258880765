"""What a profiler measured of a run, as a comparison takes it."""

from __future__ import annotations

from typing import Literal

from .base import Value


class Figure(Value, frozen=True):
    """One figure of a profiled or traced run, with a value for each step that was profiled, in `unit`.

    `step_s` is the mean time of those steps in seconds, for a figure that is a part of them: a change then counts in
    parts of a step. Without it a change counts in parts of the figure itself.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    better: Literal["lower", "higher"] = "lower"
    step_s: float | None = None
