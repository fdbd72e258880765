"""A comparison as test cases of JUnit XML: one per metric, of which that of the gate has the verdict."""

from __future__ import annotations

from llmbx.api.verbs import JunitCase, JunitVerdict, junit_figures, print_junit

from .comparison import Comparison, Metric


def print_measures(found: Comparison) -> None:
    """Print the gate's case, then those of the other metrics, which always pass."""
    own = next((metric for metric in found.metrics if metric.name == found.gate), None)
    others = [_case(found, metric.name, metric) for metric in found.metrics if metric is not own]
    print_junit("llmbx compare", [_case(found, found.gate, own, verdict(found)), *others])


def verdict(found: Comparison) -> JunitVerdict:
    """Slower is a failure; an inconclusive or impossible comparison an error."""
    if found.exit_code == 0:
        return JunitVerdict()
    return JunitVerdict(
        outcome="failure" if found.verdict == "slower" else "error", type=found.verdict, message=found.reason
    )


def _case(found: Comparison, name: str, metric: Metric | None, judged: JunitVerdict | None = None) -> JunitCase:
    lines = [f"A: {found.a.label}", f"B: {found.b.label}"]
    if judged is not None:
        lines.append(f"{found.verdict}: {found.reason}")
    if metric is not None:
        values = {"A": metric.a, "B": metric.b, "change": metric.change_percent}
        lines.append(junit_figures(values, {"A": metric.unit, "B": metric.unit, "change": "%"}))
    return JunitCase(
        name=name,
        about="compare",
        verdict=judged or JunitVerdict(),
        text="\n".join(line for line in lines if line),
    )
