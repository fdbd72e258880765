"""When MaxText's steps began and how long they took, by the host's clock.

JAX starts a step and returns before the device has run it, and the collectives are inside the compiled
program: how long a rank computes, and how long it waits for the others, cannot be seen from outside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:
    from llmbx.entry import step_clock
except ImportError:  # no installed plugin brings it
    step_clock = None


def measure(folder: Path) -> None:
    """Measure each step from its annotation to the next one's, if a plugin brings the clock."""
    if step_clock is None:
        return
    import jax

    clock = step_clock.of_host(folder)

    class Step(jax.profiler.StepTraceAnnotation):
        """JAX's annotation of one step, which also begins the step of the clock."""

        def __init__(self, name: str, **facts: Any) -> None:
            super().__init__(name, **facts)
            clock.begin(int(facts.get("step_num", 0)))

    jax.profiler.StepTraceAnnotation = Step
