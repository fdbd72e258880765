"""Made-up step times with a known mean, spread and correlation."""

from __future__ import annotations

import math
import random


def correlated(seed: random.Random, count: int, phi: float, mean: float = 5.0, spread: float = 0.05) -> list[float]:
    """A stationary first-order autoregression around `mean` with standard deviation `spread`."""
    value = seed.gauss(0, 1)
    values = []
    for _ in range(count):
        values.append(mean + spread * value)
        value = phi * value + math.sqrt(1 - phi * phi) * seed.gauss(0, 1)
    return values
