"""How much longer profiled steps took than measured ones."""

from __future__ import annotations

from collections.abc import Sequence

from ..measure import stats
from ..measure.figures import profiled_numbers
from ..model import RunSpec, Step


def profiling_overhead(
    spec: RunSpec, steps: Sequence[Step], measured_s: float | None, first_number: int | None = None
) -> tuple[str, ...]:
    """Return one line on how much longer profiled steps took than measured ones, or nothing if it is unknown.

    `measured_s` is the median of the measured steps in seconds.
    """
    if spec.profile is None or not measured_s:
        return ()
    numbers = sorted(profiled_numbers(spec, steps, first_number))
    times = {step.number: step.time_s for step in steps if step.time_s is not None}
    profiled = stats.median([times[number] for number in numbers[:-1] if number in times])
    if profiled is None:
        return ()
    text = (
        f"profiled steps took {profiled / measured_s:.2f} times as long as measured ones "
        f"({profiled:.4g} s against {measured_s:.4g} s)"
    )
    writing = times.get(numbers[-1])
    return (text if writing is None else f"{text}, the step after them, which waits for the file, {writing:.4g} s",)
