"""Numbers in the records of a log parser that cannot be true: each is replaced by None, and reported in one place."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import structs

from ..logs.printed import BEYOND, DIGITS, HUGE, LARGEST_STEP
from ..model.measure import Measure
from ..model.section import is_number
from ..model.step import Event, Step

LARGEST_COUNT = 10**15
"""Largest count: of samples, tokens, bytes, parameters."""

SHORTEST_TIME_S = 1e-9
"""Shortest step in seconds: a time that is printed as 0 is not known."""

LARGEST_TIME_S = 1e7
"""Longest step in seconds, about four months."""

LARGEST_RATE = 1e15
"""Largest rate: FLOP/s in TFLOP/s, tokens per second."""

LARGEST_VALUE = 1e30
"""Largest finite loss, gradient norm, and other value without a unit."""

LIMITS: Mapping[str, tuple[float, float, bool]] = {
    "number": (0, LARGEST_STEP, False),
    "time_s": (SHORTEST_TIME_S, LARGEST_TIME_S, False),
    "covers": (1, LARGEST_STEP, False),
    "total": (0, LARGEST_COUNT, False),
    "tflops_per_gpu": (0.0, LARGEST_RATE, False),
    "tflops_resolution": (0.0, LARGEST_RATE, False),
    "tokens_per_s_per_gpu": (0.0, LARGEST_RATE, False),
    "loss": (-LARGEST_VALUE, LARGEST_VALUE, True),
    "grad_norm": (-LARGEST_VALUE, LARGEST_VALUE, True),
    "learning_rate": (-LARGEST_VALUE, LARGEST_VALUE, True),
    "loss_scale": (-LARGEST_VALUE, LARGEST_VALUE, True),
    "global_batch_size": (0, LARGEST_COUNT, False),
    "consumed_samples": (0, LARGEST_COUNT, False),
    "tokens": (0, LARGEST_COUNT, False),
    "peak_memory_bytes": (0, LARGEST_COUNT, False),
    "attempt": (0, LARGEST_STEP, False),
    "printed_at": (-1e12, 1e12, False),
}
"""Smallest and largest value of each number of a `Step`, and whether it may be printed as nan or inf."""


MEASURE_LIMITS: Mapping[str, tuple[float, float]] = {
    "count": (0.0, LARGEST_COUNT),
    "level": (-LARGEST_VALUE, LARGEST_VALUE),
    "time": (0.0, LARGEST_TIME_S),
    "rate": (0.0, LARGEST_RATE),
}
"""Smallest and largest value of each kind of measure."""


def sensible(record: Step | Event) -> tuple[Step | Event | None, list[str]]:
    """The record without the numbers that cannot be true, and one line for each of them.

    A step whose own number cannot be true is None. Values of another type than the record's are left as they are.
    """
    return _event(record) if isinstance(record, Event) else _step(record)


def sensible_measure(measure: Measure, value: object) -> float | None:
    """The value of a measure; None if it is not a number, not finite, or beyond the limits of its kind."""
    if not is_number(value):
        return None
    low, high = MEASURE_LIMITS[measure.kind]
    return float(value) if low <= value <= high else None  # nan is not


def _step(step: Step) -> tuple[Step | None, list[str]]:
    odd = {name: value for name in LIMITS if _is_odd(name, value := getattr(step, name))}
    if not odd:
        return step, []
    if "number" in odd or "attempt" in odd:
        return None, [f"a step with the number {_shown(step.number)}"]
    lines = [f"step {step.number}: {name} {_shown(value)}" for name, value in odd.items()]
    return structs.replace(step, **dict.fromkeys(odd)), lines


def _event(event: Event) -> tuple[Event, list[str]]:
    facts = event.facts if isinstance(event.facts, dict) else {}
    odd = {name: value for name, value in facts.items() if _too_large(value)}
    odd_rank = event.rank if _too_large(event.rank) or (isinstance(event.rank, int) and event.rank < 0) else None
    if not odd and odd_rank is None:
        return event, []
    lines = [f"{name} {_shown(value)}" for name, value in odd.items()]
    lines += [] if odd_rank is None else [f"rank {_shown(odd_rank)}"]
    kept = {name: value for name, value in facts.items() if name not in odd}
    return structs.replace(event, facts=kept, rank=None if odd_rank is not None else event.rank), lines


def _is_odd(name: str, value: object) -> bool:
    if not is_number(value):
        return False
    low, high, printed = LIMITS[name]
    if isinstance(value, float) and not math.isfinite(value):
        return not printed
    return not low <= value <= high


def _too_large(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) > LARGEST_COUNT
    return isinstance(value, float) and math.isfinite(value) and abs(value) > LARGEST_VALUE


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) >= HUGE:
        return f"of {DIGITS + 1} or more digits"
    if isinstance(value, float) and abs(value) == BEYOND:
        return "beyond every float"
    return f"{value:g}" if isinstance(value, float) else str(value)
