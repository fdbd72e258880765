"""Which of many equal machines is slower than the others: a robust rank with an interval, for any number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from llmbx.api import Value

from .student_t import quantile

FALSE_ALARM = 0.001
"""Probability that any of the machines is called slow although all are equal."""

LEAST = 0.03
"""A machine that is slower by less than this fraction is not called slow, however sure that is."""

PRIOR, PRIOR_DOF = 0.01, 3.0
"""Standard deviation from machine to machine before any was measured, and how many measurements it counts as: chips of
one type differ by about 1 %, and the spread of three or four machines says little by itself.
"""

PRIOR_OF_RUNS = 0.0054
"""The same for step times of whole runs: the 90th percentile of the coefficients of variation of MLPerf's repeats."""

LEVEL = 0.95
"""Probability that the interval contains the true value."""

FEWEST = 3
"""Machines that can be compared: of two, it is unknown which is the slow one."""


class Place(Value, frozen=True):
    """How much slower a machine is than the others, as a fraction (0.05: 5 %), with its interval.

    `slow` is None if it looks slower, but not by more than the machines vary, or if there are fewer than three.
    """

    value: float
    slower: float | None
    low: float | None
    high: float | None
    slow: bool | None


def places(times: Mapping[str, Sequence[float]], least: float = LEAST, prior: float = PRIOR) -> dict[str, Place]:
    """Compare the times (or other positive figures of which less is better) of each machine with those of the others.

    The level of the others and the spread between machines are medians: up to half of them may be slow.
    """
    middles = {name: median(map(math.log, values)) for name, values in times.items() if values}
    if len(middles) < FEWEST:
        return {name: Place(math.exp(middle), None, None, None, None) for name, middle in middles.items()}
    deviation, dof = _spread(list(middles.values()), prior)
    sure = quantile(1 - FALSE_ALARM / len(middles), dof)
    half = quantile((1 + LEVEL) / 2, dof)
    compared = {}
    for name, middle in middles.items():
        others = [value for other, value in middles.items() if other != name]
        level = math.pi / 2 / len(others)  # the variance of a median
        error = math.hypot(deviation * math.sqrt(1 + level), _own_error(times[name]))
        difference = middle - median(others)
        clear = difference > sure * error
        compared[name] = Place(
            value=math.exp(middle),
            slower=math.expm1(difference),
            low=math.expm1(difference - half * error),
            high=math.expm1(difference + half * error),
            slow=False if difference <= math.log1p(least) else True if clear else None,
        )
    return compared


def _spread(middles: Sequence[float], prior: float) -> tuple[float, float]:
    """The standard deviation between machines and its degrees of freedom, from their medians and the prior."""
    center = median(middles)
    own = 1.4826 * median(abs(middle - center) for middle in middles)
    dof = 0.37 * (len(middles) - 1)  # efficiency of the median of absolute differences
    own *= math.sqrt(len(middles) / (len(middles) - 1))
    pooled = (PRIOR_DOF * prior**2 + dof * own**2) / (PRIOR_DOF + dof)
    return math.sqrt(pooled), PRIOR_DOF + dof


def _own_error(values: Sequence[float]) -> float:
    """The standard error of the median of one machine's repetitions."""
    if len(values) < FEWEST:
        return 0.0
    logs = list(map(math.log, values))
    center = median(logs)
    deviation = 1.4826 * median(abs(log - center) for log in logs)
    return deviation * math.sqrt(math.pi / 2 / len(logs))
