"""Verdicts as JUnit XML, which CI servers read: `--format junit` of run, sweep and compare.

The elements and attributes are those of the schema of Jenkins' xUnit plugin (junit-10.xsd): times have three decimals,
and a test case has no properties, so that its figures are text in `system-out`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..model import Result, RunSpec, Value
from ..model.section import is_number
from .streams import visible

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from .workspace import Workspace

Outcome = Literal["passed", "failure", "error", "skipped"]

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, in what `visible` leaves."""


class Case(Value, frozen=True):
    """One test case: its name, what it is about (a workload), its outcome, its time, and what it prints.

    A case that did not pass has the type of its outcome (timeout, slower, unstable …) and the reason. "failure": it was
    measured and is bad, or the run itself failed. "error": the infrastructure failed, or no verdict can be given.
    "skipped": it did not run.
    """

    name: str
    about: str
    outcome: Outcome = "passed"
    type: str = ""
    message: str = ""
    time_s: float | None = None
    text: str = ""
    figures: dict[str, tuple[Any, str]] = {}
    """Figures and their units by name, printed after the text; those that are unknown, or no numbers, are left out."""

    def judged(
        self, results: Sequence[Result], spec: RunSpec, workspace: Workspace, allowed: float,
        together: Sequence[Result] = (),
    ) -> Case:  # fmt: skip
        """The case with the verdict on the results of one run or of its repeats: the rules are those of the exit code.

        `together` are the runs that are compared with the published figure together, by default `results`.
        """
        from ..run.pipeline import exit_code
        from .published import against_published, decided

        for result in results:
            if code := exit_code(result):
                why = result.cause or result.status.replace("_", " ")
                return self.replace(outcome="failure" if code == 1 else "error", type=result.status, message=why)
        workload = workspace.plugins.workload(spec.workload, spec.plugin)
        for result in results:
            if not decided(result, spec, workload):
                why = result.stability.warning or "no verdict"
                return self.replace(outcome="error", type="unstable", message=why)
        plugins, install = workspace.plugins, workspace.install
        found = against_published(together or results, spec, workload, install, plugins.judge, allowed)
        if found is not None and found.verdict == "slower":
            return self.replace(outcome="failure", type="slower", message=found.sentence)
        return self

    @property
    def output(self) -> str:
        """The text and the known figures, one a line: `name: value unit`."""
        figures = self.figures.items()
        known = [f"{name}: {value:.6g} {unit}".rstrip() for name, (value, unit) in figures if is_number(value)]
        return "\n".join([*([self.text] if self.text else []), *known])


class Suite(Value, frozen=True):
    """The cases of one command."""

    name: str
    cases: tuple[Case, ...]

    def render(self) -> str:
        """The cases as one XML document."""
        from xml.etree import ElementTree

        outcomes = [case.outcome for case in self.cases]
        counts = {f"{name}s": str(outcomes.count(name)) for name in ("failure", "error")}
        counts["tests"] = str(len(self.cases))
        top = ElementTree.Element("testsuites", {"name": "llmbx", **counts})
        skipped = str(outcomes.count("skipped"))
        group = ElementTree.SubElement(top, "testsuite", {"name": self.name, "skipped": skipped, **counts})
        for case in self.cases:
            _add(case, group)
        ElementTree.indent(top)
        text = ElementTree.tostring(top).decode("ascii")  # other characters as references, whatever encodes stdout
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'

    def print(self) -> None:
        """Print the document on stdout."""
        import click

        click.echo(self.render(), nl=False)


def _add(case: Case, group: Element) -> None:
    from xml.etree import ElementTree

    about = re.sub(r"\W", "_", case.about)  # servers split class names at dots
    item = ElementTree.SubElement(group, "testcase", name=_clean(case.name), classname=f"llmbx.{about}")
    if case.time_s is not None:
        item.set("time", f"{case.time_s:.3f}")
    if case.outcome != "passed":
        ElementTree.SubElement(item, case.outcome, {"type": case.type, "message": _clean(case.message)})
    if case.output:
        ElementTree.SubElement(item, "system-out").text = _clean(case.output)


def of_runs(
    results: Sequence[Result], spec: RunSpec, workspace: Workspace, allowed: float, problem: str | None = None
) -> list[Case]:
    """A case for each repeat of a run, named by its configuration and number, which are the same in every build.

    `problem` is the reason if the next one could not be started.
    """
    cases = [
        Case(
            name=_name(spec, number),
            about=spec.workload,
            time_s=result.timing.total_s,
            text=f"run: {result.run_id}",
            figures=_figures(result),
        ).judged([result], spec, workspace, allowed, results)
        for number, result in enumerate(results, 1)
    ]
    if problem is None:
        return cases
    name = _name(spec, len(results) + 1)
    return [*cases, Case(name=name, about=spec.workload, outcome="error", type="infrastructure", message=problem)]


def _name(spec: RunSpec, number: int) -> str:
    return spec.experiment if number == 1 else f"{spec.experiment} {number}"


def _figures(result: Result) -> dict[str, tuple[Any, str]]:
    import msgspec

    from ..history.columns import COLUMNS, flatten
    from ..history.units import UNITS

    values = flatten(msgspec.to_builtins(result))
    units = {name: unit for name, (unit, _) in UNITS.items()}
    return {name: (values.get(name), units.get(name, "")) for name, kind in COLUMNS.items() if kind == "number"}


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", visible(text))
