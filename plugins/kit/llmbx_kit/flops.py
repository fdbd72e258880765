"""Compare the operations that a program counted in one step with its framework's formula."""

from __future__ import annotations

from llmbx.api import Flops, Value

LIMIT = 0.02
"""Largest relative difference between the counted operations of a step and the formula."""

WINDOW = (
    "the window: the program does not state which pairs its masks hide "
    "(`hidden` of llmbx.entry.operations.write)"
)


class Counted(Value, frozen=True):
    """The content of `operations.FILE`: what one step of one rank took."""

    flops: float
    """Operations, forward and backward."""
    samples: int
    """Samples of the step in this rank."""
    hidden: float | None = None
    """Those of the operations that were on pairs of positions which a mask hides; None: unknown."""
    per_position: float = 0.0
    """Operations on one pair for each position."""


class Comparison(Value, frozen=True):
    """What a comparison found."""

    text: str
    problems: tuple[str, ...] = ()
    unchecked: str = ""
    """What could not be compared, and why; empty: all was compared."""


def compare(counted: Counted, formula: Flops) -> Comparison:
    """Compare what was counted with the convention of the same pairs, then what the masks hide."""
    per_sample = counted.flops / counted.samples
    conventions = {"full": formula.full, "causal": formula.causal}
    if formula.all_pairs is not None:
        conventions["all pairs"] = formula.all_pairs
    if counted.hidden is not None:  # the counter multiplied all pairs
        dense = "full" if formula.all_pairs is None else "all pairs"
        conventions = {dense: conventions[dense]}
    nearest = min(conventions, key=lambda name: abs(per_sample / conventions[name] - 1))
    apart = per_sample / conventions[nearest] - 1
    difference = f"{100 * apart:+.2f} % of {formula.formula} ({nearest})"
    text = f"counted {per_sample:.4g} per sample, {difference}"
    if abs(apart) > LIMIT:
        return Comparison(text=text, problems=(text + _hint(formula, apart),))
    if counted.hidden is not None:
        problem = _masks(counted, formula)
        return Comparison(text=text, problems=(problem,) if problem else ())
    windowed = nearest == "all pairs" and formula.all_pairs != formula.full
    return Comparison(text=text, unchecked=WINDOW if windowed else "")


def _hint(formula: Flops, apart: float) -> str:
    if apart < 0 or formula.all_pairs is not None or formula.full == formula.causal:
        return ""
    multiplies = "if the program multiplies pairs that a window masks"
    return f"; {multiplies}, the formula states them as all_pairs"


def _masks(counted: Counted, formula: Flops) -> str:
    """Return how the pairs that the formula leaves out differ from those that the masks hide."""
    every_pair = formula.full if formula.all_pairs is None else formula.all_pairs
    hidden = (counted.hidden or 0.0) / counted.samples
    if not hidden:
        if every_pair == formula.full:
            return ""
        return f"{formula.formula} has a window or chunks, and the program's masks hide no pair"
    left_out = every_pair - formula.causal
    if abs(left_out - hidden) <= LIMIT * hidden + counted.per_position / counted.samples:
        return ""
    return (
        f"the masks hide {hidden:.4g} per sample of the pairs that are counted, and "
        f"{formula.formula} (causal) leaves out {left_out:.4g}: compare its windows with those of "
        "the program"
    )
