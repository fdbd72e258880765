"""The what-if budget: what a step would take without some of what delayed it. Pure.

In synchronous training a step takes as long as the rank that works longest, and then the
communication. Time that is removed from another rank gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .clocks import Clocks, Floats


@dataclass(frozen=True)
class Part:
    """Time that something took: of each rank in each step, or of the communication of each step."""

    own: Floats | None = None
    shared: Floats | None = None


def step_times(clocks: Clocks, parts: Sequence[Part]) -> Floats:
    """Return what each step would take without these parts."""
    own, shared = clocks.own, clocks.shared
    taken = [part.own for part in parts if part.own is not None]
    waited = [part.shared for part in parts if part.shared is not None]
    left = own - sum(taken) if taken else own
    common = shared - sum(waited) if waited else shared
    return np.asarray(np.maximum(left, 0).max(axis=0) + np.maximum(common, 0))


def mean_s(clocks: Clocks, parts: Sequence[Part]) -> float:
    """Return the mean step without these parts."""
    return float(step_times(clocks, parts).mean())


def losses(clocks: Clocks, parts: Sequence[Part]) -> list[float]:
    """Return what each part costs a mean step, in seconds. They add up to what all of them cost.

    What a part costs depends on which others are there: two ranks that are equally late cost
    nothing alone. So it is the mean of what is gained by removing it first, and by removing it last.
    """
    whole, none = mean_s(clocks, []), mean_s(clocks, parts)
    lost = whole - none
    halves = []
    for number, part in enumerate(parts):
        others = [*parts[:number], *parts[number + 1 :]]
        first, last = whole - mean_s(clocks, [part]), mean_s(clocks, others) - none
        halves.append(max(0.0, (first + last) / 2))
    total = sum(halves)
    if total <= 0 or lost <= 0:
        return [0.0] * len(halves)
    return [half * lost / total for half in halves]
