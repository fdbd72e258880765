"""Whether the window of a side is stable. An unstable window has no mean that could be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from .measured import Measured

FALSE_ALARMS = 0.05
"""Largest share of stable windows that the tests of stability call unstable (see docs/stability.md)."""

COVERED = ("noisy", "too few steps")
"""Verdicts of a window that say how little one run tells. The variation between the means of repeats contains this."""


def why(run: Measured) -> str | None:
    """Why the window of a run is unstable; None if it is stable."""
    stability = run.result.stability
    if stability.verdict in (None, "stable"):
        return None
    return f"{stability.verdict}: {stability.reason or 'no reason is recorded'}"


def unstable(name: str, runs: Sequence[Measured]) -> str | None:
    """Why a side is unstable; None if it is stable.

    One run must be stable. Of several repeats, as many may be unstable as false alarms explain, and windows with few or
    noisy steps do not count: both are in the variation between their means.
    """
    counted = [run for run in runs if len(runs) == 1 or run.result.stability.verdict not in COVERED]
    found = [(run, reason) for run in counted if (reason := why(run)) is not None]
    if len(found) < _limit(len(runs)):
        return None
    run, reason = found[-1]
    many = f"{len(found)} of {len(runs)} repeats are" if len(runs) > 1 else f"{run.name} is"
    return f"{name}: {many} unstable ({reason.partition(':')[0]})"


def unstable_warnings(name: str, runs: Sequence[Measured]) -> Iterator[str]:
    """One line for each unstable run of a side."""
    for run in runs:
        if (reason := why(run)) is not None:
            which = f"{run.name}: " if len(runs) > 1 else ""
            yield f"{name}: {which}{reason}"


def _limit(count: int) -> int:
    """The smallest number of unstable runs among `count` that is not explained by false alarms."""
    limit, at_least = 1, 1 - (1 - FALSE_ALARMS) ** count
    while at_least > FALSE_ALARMS + 1e-12:
        at_least -= math.comb(count, limit) * FALSE_ALARMS**limit * (1 - FALSE_ALARMS) ** (count - limit)
        limit += 1
    return limit
