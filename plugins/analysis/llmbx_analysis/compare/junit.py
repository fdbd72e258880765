"""Print a comparison as JUnit XML: one test case per metric; the case of the gate has the verdict."""

from __future__ import annotations

from llmbx.api.verbs import JunitCase, JunitSuite

from .comparison import Comparison, Metric


def print_measures(comparison: Comparison) -> None:
    """Print the gate's case, then those of the other metrics, which always pass."""
    own = next((metric for metric in comparison.metrics if metric.name == comparison.gate), None)
    others = [_case(comparison, metric.name, metric) for metric in comparison.metrics if metric is not own]
    JunitSuite(name="llmbx compare", cases=(_gate(comparison, own), *others)).print()


def _gate(comparison: Comparison, metric: Metric | None) -> JunitCase:
    """The case with the verdict: slower is a failure; an inconclusive or impossible comparison an error."""
    case = _case(comparison, comparison.gate, metric, f"{comparison.verdict}: {comparison.reason}")
    if comparison.exit_code == 0:
        return case
    outcome = "failure" if comparison.verdict == "slower" else "error"
    return case.replace(outcome=outcome, type=comparison.verdict, message=comparison.reason)


def _case(comparison: Comparison, name: str, metric: Metric | None, *more: str) -> JunitCase:
    figures = {}
    if metric is not None:
        sides = {"A": (metric.a, metric.unit), "B": (metric.b, metric.unit)}
        figures = {**sides, "change": (metric.change_percent, "%")}
    lines = (f"A: {comparison.a.label}", f"B: {comparison.b.label}", *more)
    return JunitCase(name=name, about="compare", text="\n".join(lines), figures=figures)
