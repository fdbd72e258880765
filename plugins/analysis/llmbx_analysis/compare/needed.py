"""What would decide an inconclusive comparison."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx_verdict.statistics import intervals, planning

from .comparison import Needed
from .measured import Measured, step_time


def needed(a: Sequence[Measured], b: Sequence[Measured], change: intervals.Change, tolerance: float) -> Needed:
    """The number of runs, pairs or steps that would decide. `a` is empty for a published figure."""
    runs = planning.runs_needed(change, tolerance)
    if change.over == "pairs":
        return Needed(pairs=runs)
    if change.over == "repeats" or len(a) != 1 or len(b) != 1:
        return Needed(runs=runs)
    one, two = (step_time(side, change.level) for side in (a, b))
    return Needed(runs=runs, steps=planning.steps_needed(one, two, change, tolerance))


def sentence(plan: Needed, change: intervals.Change, published: bool = False, logs: bool = False) -> str:
    """The plan in words. Nothing repeats what wrote `logs`."""
    ways = []
    if plan.runs is not None:
        how = "" if logs else f" (--repeat {plan.runs})"
        ways.append(f"{plan.runs} runs{'' if published else ' on each side'}{how}")
    if plan.pairs is not None:
        ways.append(f"{plan.pairs} pairs (--interleave {plan.pairs})")
    if plan.steps is not None:
        ways.append(f"windows of {plan.steps} steps")
    if not ways:
        return f"more than {planning.MOST} runs would be needed to decide: the difference is too close to the tolerance"
    return f"about {' or '.join(ways)} would decide, if the difference stays at {100 * change.fraction:+.1f} %"
