"""What a profiler measured of a run, as a comparison takes it."""

from __future__ import annotations

from typing import Literal

from .base import Value


class Figure(Value, frozen=True):
    """One figure of a profiled or traced run, with a value for each step that was profiled."""

    name: str
    """Its name in `--gate`."""
    unit: str
    """The unit of the values."""
    values: tuple[float, ...]
    """One for each profiled step."""
    better: Literal["lower", "higher"] = "lower"
    """Which direction is better."""
    step_s: float | None = None
    """The mean time of those steps in seconds, for a figure that is a part of them: a change then counts in parts of a
    step. Without it a change counts in parts of the figure itself.
    """
