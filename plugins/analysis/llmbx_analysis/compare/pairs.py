"""The pairs of `run --against`: runs of both sides that followed each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llmbx_verdict.statistics import intervals

from .measured import Measured, MeasuredRun


def change_of_pairs(
    a: Sequence[Measured],
    b: Sequence[Measured],
    level: float,
    value: Callable[[Measured], float] = lambda run: run.mean_s,
) -> intervals.Change | None:
    """The change of the step time, or of another `value` > 0, over the pairs of both sides; None for fewer than two.

    A pair consists of the runs of both sides with the same number of one command.
    """
    sides = [{key: run for run in side if (key := _number(run)) is not None} for side in (a, b)]
    pairs = [(one, sides[1][key]) for key, one in sides[0].items() if key in sides[1]]
    order = [_created(other) < _created(one) for one, other in pairs]
    return intervals.change_of_pairs([(value(one), value(other)) for one, other in pairs], order, level)


def unpaired(a: Sequence[Measured], b: Sequence[Measured]) -> int:
    """The number of runs of both sides without a partner on the other side."""
    sides = [{_number(run) for run in side} - {None} for side in (a, b)]
    return len(a) + len(b) - 2 * len(sides[0] & sides[1])


def _number(run: Measured) -> tuple[str, int] | None:
    pair = run.record.pair if isinstance(run, MeasuredRun) else None
    return None if pair is None else (pair.group, pair.number)


def _created(run: Measured) -> float:
    assert isinstance(run, MeasuredRun)
    return run.record.created
