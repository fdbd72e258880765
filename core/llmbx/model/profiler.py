"""Capabilities of a profiler, and what keeps it from recording a run."""

from __future__ import annotations

from typing import Literal

from .base import Value


class Profiler(Value, frozen=True):
    """Capabilities of a profiler, registered with the hook `register_profiler`."""

    takes_steps: bool = False
    """Whether it records the steps of `RunSpec.profile`, so that `llmbx profile` can use it."""
    traces: bool = False
    """Whether it traces the whole run by making the framework's libraries log their calls. The run is then marked as
    traced, its experiment name ends in the plugin's name, and it is not profiled.
    """
    steps: int | None = None
    """Training steps of a run if the user requests none; None: the recipe's."""
    walltime_minutes: int | None = None
    """Upper limit of the default time limit, in minutes."""
    disturbs: Literal["time", "memory", "nothing"] = "time"
    """What it changes in the measured steps. Results of a run whose time it changes are not comparable; if it changes
    the memory only, the result has a warning.
    """


class Obstacle(Value, frozen=True):
    """What keeps a profiler from recording the steps of a run on this machine."""

    problem: str
    """What is missing, in one line."""
    fix: str
    """How to get it."""
    adds: str = ""
    """What this profiler would record in this run and others do not; completes the sentence "NAME adds …"."""


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
