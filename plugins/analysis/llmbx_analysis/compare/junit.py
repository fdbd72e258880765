"""A comparison as test cases of JUnit XML: one per metric, of which that of the gate has the verdict."""

from __future__ import annotations

from llmbx.api.verbs import JunitCase, JunitSuite

from .comparison import Comparison, Metric


def print_measures(found: Comparison) -> None:
    """Print the gate's case, then those of the other metrics, which always pass."""
    own = next((metric for metric in found.metrics if metric.name == found.gate), None)
    others = [_case(found, metric.name, metric) for metric in found.metrics if metric is not own]
    JunitSuite(name="llmbx compare", cases=(_gate(found, own), *others)).print()


def _gate(found: Comparison, metric: Metric | None) -> JunitCase:
    """The case with the verdict: slower is a failure; an inconclusive or impossible comparison an error."""
    case = _case(found, found.gate, metric, f"{found.verdict}: {found.reason}")
    if found.exit_code == 0:
        return case
    outcome = "failure" if found.verdict == "slower" else "error"
    return case.replace(outcome=outcome, type=found.verdict, message=found.reason)


def _case(found: Comparison, name: str, metric: Metric | None, *more: str) -> JunitCase:
    figures = {}
    if metric is not None:
        sides = {"A": (metric.a, metric.unit), "B": (metric.b, metric.unit)}
        figures = {**sides, "change": (metric.change_percent, "%")}
    lines = (f"A: {found.a.label}", f"B: {found.b.label}", *more)
    return JunitCase(name=name, about="compare", text="\n".join(lines), figures=figures)
