"""Whether a set of nodes is slow: a sequential test of its step times against those of healthy nodes.

Wald's test of two means with a known spread: the step time of healthy nodes, and one that is longer by the difference
that is looked for. Runs are repeated until one of the two is sure enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from llmbx.api import Value


class Judgement(Value, frozen=True):
    """What is looked for, and how sure it must be.

    `difference` is the least slowness to find (0.03: 3 %), `spread` the relative standard deviation from run to run,
    `error` the probability that a single decision is wrong, and `most` the number of runs after which the more probable
    one is taken.
    """

    difference: float
    spread: float
    error: float
    most: int = 8

    def is_slow(self, logs: Sequence[float], healthy: Sequence[float]) -> bool | None:
        """Whether runs are slow beside healthy ones, by the logarithms of their step times; None: not sure yet."""
        ratio = self.likelihood(logs, healthy)
        if abs(ratio) >= math.log((1 - self.error) / self.error) or len(logs) >= self.most:
            return ratio > 0
        return None

    def likelihood(self, logs: Sequence[float], healthy: Sequence[float]) -> float:
        """The logarithm of how much more probable it is that they are slow than that they are healthy."""
        excess = fmean(logs) - fmean(healthy)
        variance = self.spread**2 * (1 / len(logs) + 1 / len(healthy))
        difference = math.log1p(self.difference)
        return (excess - difference / 2) * difference / variance
