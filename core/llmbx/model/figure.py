"""Metric of a profiled run, in the form that a comparison uses."""

from __future__ import annotations

from typing import Literal

from .base import Value


class Figure(Value, frozen=True):
    """One metric of a profiled or traced run, with a value for each profiled step."""

    name: str
    """Name of the metric in `--gate`."""
    unit: str
    """Unit of the values."""
    values: tuple[float, ...]
    """One value for each profiled step."""
    better: Literal["lower", "higher"] = "lower"
    """Which direction is an improvement."""
    step_s: float | None = None
    """Mean duration of the profiled steps in seconds, for a metric that is a part of the step: a change is then
    reported relative to the step. Without it, a change is relative to the metric itself.
    """
