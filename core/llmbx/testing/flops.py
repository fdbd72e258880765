"""Compare the operations that a program counted in one step with the formula of its framework."""

from __future__ import annotations

from ..model import Flops, Value

LIMIT = 0.02
"""Largest relative difference between the counted operations of a step and the formula."""

MASKS = "the program does not state which pairs its masks hide (`hidden` of llmbx.entry.operations.write)"


class Counted(Value, frozen=True):
    """The content of `operations.FILE`: what one step of one rank took."""

    flops: float
    """Operations, forward and backward."""
    samples: int
    """Samples of the step in this rank."""
    hidden: float | None = None
    """Those of the operations that were on pairs of positions which a mask hides; None: the program does not say."""
    per_position: float = 0.0
    """Operations on one pair for each position."""


class Comparison(Value, frozen=True):
    """What a comparison found. `unchecked` is what could not be compared, and why; empty: all was compared."""

    text: str
    problems: tuple[str, ...] = ()
    unchecked: str = ""


def compare(counted: Counted, formula: Flops) -> Comparison:
    """Compare what was counted with the convention that counts the same pairs, then what the masks hide."""
    per_sample = counted.flops / counted.samples
    conventions = {"full": formula.full, "causal": formula.causal}
    if formula.all_pairs is not None:
        conventions["all pairs"] = formula.all_pairs
    if counted.hidden is not None:  # the counter multiplied all pairs
        dense = "full" if formula.all_pairs is None else "all pairs"
        conventions = {dense: conventions[dense]}
    nearest = min(conventions, key=lambda name: abs(per_sample / conventions[name] - 1))
    apart = per_sample / conventions[nearest] - 1
    text = f"counted {per_sample:.4g} per sample, {100 * apart:+.2f} % of {formula.formula} ({nearest})"
    if abs(apart) > LIMIT:
        return Comparison(text=text, problems=(text + _hint(formula, apart),))
    if counted.hidden is None:
        windowed = nearest == "all pairs" and formula.all_pairs != formula.full
        return Comparison(text=text, unchecked=f"the window: {MASKS}" if windowed else "")
    problem = _masks(counted, counted.hidden / counted.samples, formula)
    return Comparison(text=text, problems=(problem,) if problem else ())


def _hint(formula: Flops, apart: float) -> str:
    if apart < 0 or formula.all_pairs is not None or formula.full == formula.causal:
        return ""
    return "; if the program multiplies pairs that a window masks, the formula states them as all_pairs"


def _masks(counted: Counted, hidden: float, formula: Flops) -> str:
    """Return what is wrong with the pairs that the formula leaves out; empty if they are those of the masks."""
    everything = formula.full if formula.all_pairs is None else formula.all_pairs
    if not hidden:
        same = everything == formula.full
        return "" if same else f"{formula.formula} has a window or chunks, and the program's masks hide no pair"
    left_out = everything - formula.causal
    if abs(left_out - hidden) <= LIMIT * hidden + counted.per_position / counted.samples:
        return ""
    return (
        f"the masks hide {hidden:.4g} per sample of the pairs that are counted, and {formula.formula} (causal) leaves "
        f"out {left_out:.4g}: compare its windows with those of the program"
    )
