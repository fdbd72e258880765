"""What a profiler does to the runs that it wraps."""

from __future__ import annotations

from .base import Value


class Profiler(Value, frozen=True):
    """A profiler's facts, registered with the hook `register_profiler`."""

    takes_steps: bool = False
    """Whether it records the steps of `RunSpec.profile`: then `llmbx profile` can use it."""
    traces: bool = False
    """Whether it makes the framework's libraries log what they do, for the whole run: such a run is marked as traced,
    its experiment has the plugin's name, and nothing of it is profiled.
    """
    steps: int | None = None
    """Training steps of a run where none are asked for; None: the recipe's."""
    walltime_minutes: int | None = None
    """The longest time limit that a run gets by default."""
    disturbs: str = "a profiler was around the run"
    """Why the figures of such a run compare with no other's; empty for a profiler that costs nothing."""
