"""Verdicts as JUnit XML, which CI servers read: `--format junit` of run, sweep and compare.

The elements and attributes are those of the schema of Jenkins' xUnit plugin (junit-10.xsd): times have three decimals,
and a test case has no properties, so that its figures are text in `system-out`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..model import Result, RunSpec, Value
from ..model.section import is_number
from .streams import visible

if TYPE_CHECKING:
    from .options import Workspace

Outcome = Literal["passed", "failure", "error", "skipped"]

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, in what `visible` leaves."""


class Verdict(Value, frozen=True):
    """Whether a test case passed; else its type (timeout, slower, unstable …) and the reason.

    "failure": it was measured and is bad, or the run itself failed. "error": the infrastructure failed, or no verdict
    can be given. "skipped": it did not run.
    """

    outcome: Outcome = "passed"
    type: str = ""
    message: str = ""


class Case(Value, frozen=True):
    """One test case: its name, what it is about (a workload), its verdict, its time, and its figures."""

    name: str
    about: str
    verdict: Verdict = Verdict()
    time_s: float | None = None
    text: str = ""


def render(suite: str, cases: Sequence[Case]) -> str:
    """The cases as one XML document."""
    from xml.etree import ElementTree

    counts = {f"{name}s": str(sum(c.verdict.outcome == name for c in cases)) for name in ("failure", "error")}
    counts["tests"] = str(len(cases))
    skipped = str(sum(case.verdict.outcome == "skipped" for case in cases))
    top = ElementTree.Element("testsuites", {"name": "llmbx", **counts})
    group = ElementTree.SubElement(top, "testsuite", {"name": suite, "skipped": skipped, **counts})
    for case in cases:
        about = re.sub(r"\W", "_", case.about)  # servers split class names at dots
        item = ElementTree.SubElement(group, "testcase", name=_clean(case.name), classname=f"llmbx.{about}")
        if case.time_s is not None:
            item.set("time", f"{case.time_s:.3f}")
        if case.verdict.outcome != "passed":
            facts = {"type": case.verdict.type, "message": _clean(case.verdict.message)}
            ElementTree.SubElement(item, case.verdict.outcome, facts)
        if case.text:
            ElementTree.SubElement(item, "system-out").text = _clean(case.text)
    ElementTree.indent(top)
    text = ElementTree.tostring(top).decode("ascii")  # other characters as references, whatever encodes stdout
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def figures(members: Mapping[str, Any], units: Mapping[str, str]) -> str:
    """The known numbers among `members` as lines `name: value unit`."""
    found = [
        f"{name}: {value:.6g} {units.get(name, '')}".rstrip() for name, value in members.items() if is_number(value)
    ]
    return "\n".join(found)


def verdict(
    results: Sequence[Result], spec: RunSpec, workspace: Workspace, allowed: float, together: Sequence[Result] = ()
) -> Verdict:
    """The verdict on the results of one run or of its repeats, with the same rules as the exit code.

    `together` are the runs that are compared with the published figure together, by default `results`.
    """
    from ..run.pipeline import exit_code
    from .flow import decided
    from .published import against_published

    for result in results:
        if code := exit_code(result):
            why = result.cause or result.status.replace("_", " ")
            return Verdict(outcome="failure" if code == 1 else "error", type=result.status, message=why)
    workload = workspace.plugins.workload(spec.workload, spec.plugin)
    for result in results:
        if not decided(result, spec, workload):
            return Verdict(outcome="error", type="unstable", message=result.stability.warning or "no verdict")
    judged = against_published(together or results, spec, workload, workspace.install, workspace.plugins.judge, allowed)
    if judged is not None and judged.verdict == "slower":
        return Verdict(outcome="failure", type="slower", message=judged.sentence)
    return Verdict()


def of_runs(
    results: Sequence[Result], spec: RunSpec, workspace: Workspace, allowed: float, problem: str | None = None
) -> list[Case]:
    """A case for each repeat of a run, named by its configuration and number, which are the same in every build.

    `problem` is the reason if the next one could not be started.
    """
    failed = Verdict(outcome="error", type="infrastructure", message=problem or "")
    not_started = Case(name=_name(spec, len(results) + 1), about=spec.workload, verdict=failed)
    cases = [
        Case(
            name=_name(spec, number),
            about=spec.workload,
            verdict=verdict([result], spec, workspace, allowed, results),
            time_s=result.timing.total_s,
            text=_result_text(result),
        )
        for number, result in enumerate(results, 1)
    ]
    return [*cases, not_started] if problem is not None else cases


def _name(spec: RunSpec, number: int) -> str:
    return spec.experiment if number == 1 else f"{spec.experiment} {number}"


def _result_text(result: Result) -> str:
    import msgspec

    from ..history.columns import COLUMNS, flatten
    from ..history.units import UNITS

    values = flatten(msgspec.to_builtins(result))
    measured = {name: values.get(name) for name, kind in COLUMNS.items() if kind == "number"}
    return f"run: {result.run_id}\n{figures(measured, {name: unit for name, (unit, _) in UNITS.items()})}"


def print_cases(suite: str, cases: Iterable[Case]) -> None:
    """Print the document on stdout."""
    import click

    click.echo(render(suite, [*cases]), nl=False)


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", visible(text))
