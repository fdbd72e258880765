"""Print a comparison as test cases: one for each metric; the case of the gate has the verdict."""

from __future__ import annotations

from llmbx.api.verbs import Case, print_cases

from .comparison import Comparison, Metric


def print_measures(format_: str, comparison: Comparison) -> None:
    """Print the gate's case, then those of the other metrics, which always pass."""
    own = next((metric for metric in comparison.metrics if metric.name == comparison.gate), None)
    others = [_case(comparison, metric.name, metric) for metric in comparison.metrics if metric is not own]
    print_cases(format_, "llmbx compare", [_gate(comparison, own), *others])


def _gate(comparison: Comparison, metric: Metric | None) -> Case:
    """The case with the verdict: slower is a failure; an inconclusive or impossible comparison an error."""
    case = _case(comparison, comparison.gate, metric, f"{comparison.verdict}: {comparison.reason}")
    if comparison.exit_code == 0:
        return case
    outcome = "failure" if comparison.verdict == "slower" else "error"
    return case.replace(outcome=outcome, type=comparison.verdict, message=comparison.reason)


def _case(comparison: Comparison, name: str, metric: Metric | None, *more: str) -> Case:
    figures = {}
    if metric is not None:
        sides = {"A": (metric.a, metric.unit), "B": (metric.b, metric.unit)}
        figures = {**sides, "change": (metric.change_percent, "%")}
    lines = (f"A: {comparison.a.label}", f"B: {comparison.b.label}", *more)
    return Case(name=name, about="compare", text="\n".join(lines), figures=figures)
