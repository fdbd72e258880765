"""Verdicts as test cases, which plugins print in formats of their own.

A format is an entry point of the group `llmbx.formats`. Its name becomes a value of `--format` of
`run`, `sweep` and `compare`. It refers to a function that gets the name of the command and its
cases, and returns the text to print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from ..errors import LlmbxError
from ..model import Result, RunSpec, Value
from ..model.section import is_number
from ..plugins.calls import PLUGIN_EXCEPTIONS, failure
from ..plugins.entry_points import load, points
from .output import CASE_FORMATS
from .streams import visible

if TYPE_CHECKING:
    from ..plugins.manager import Plugins
    from .workspace import Workspace

Outcome = Literal["passed", "failure", "error", "skipped"]


class Case(Value, frozen=True):
    """One test case: what it is about (a workload), its outcome, its time, and what it prints.

    A case that did not pass has the type of its outcome (timeout, slower, unstable …) and the
    reason. "failure": it was measured and is bad, or the run itself failed. "error": the
    infrastructure failed, or no verdict can be given. "skipped": it did not run.
    """

    name: str
    about: str
    outcome: Outcome = "passed"
    type: str = ""
    message: str = ""
    time_s: float | None = None
    text: str = ""
    figures: dict[str, tuple[Any, str]] = {}
    """Figures and their units by name, printed after the text; those that are unknown, or no
    numbers, are left out.
    """

    def judged(
        self, results: Sequence[Result], spec: RunSpec, workspace: Workspace, allowed: float,
        together: Sequence[Result] = (),
    ) -> Case:  # fmt: skip
        """The case with the verdict on the results of one run or of its repeats.

        The rules are those of the exit code.
        `together` are the runs that are compared with the published figure together, by default
        `results`.
        """
        from ..model.result import exit_code
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
        verdict = against_published(together or results, spec, workload, workspace, allowed)
        if verdict is not None and verdict.verdict == "slower":
            return self.replace(outcome="failure", type="slower", message=verdict.sentence)
        return self

    @property
    def output(self) -> str:
        """The text and the known figures, one a line: `name: value unit`."""
        figures = self.figures.items()
        lines = [f"{name}: {value:.6g} {unit}".rstrip() for name, (value, unit) in figures if is_number(value)]
        return "\n".join([*([self.text] if self.text else []), *lines])


def print_cases(format_: str, name: str, cases: Sequence[Case]) -> None:
    """Print the cases of the command `name` in a format of a plugin.

    Control characters are made visible.
    """
    point = next(point for point in points(CASE_FORMATS) if point.name == format_)
    shown = [
        case.replace(name=visible(case.name), message=visible(case.message), text=visible(case.text)) for case in cases
    ]
    try:
        text = load(point)(name, shown)
    except LlmbxError:
        raise
    except PLUGIN_EXCEPTIONS as error:
        raise failure(f"the format {format_} ({point.value}) failed", error) from error
    click.echo(text, nl=False)


def of_runs(
    results: Sequence[Result], spec: RunSpec, workspace: Workspace, allowed: float, problem: str | None = None
) -> list[Case]:
    """A case for each repeat of a run.

    Its name has the configuration and the number, which are the same in every build.
    `problem` is the reason if the next one could not be started.
    """
    cases = [
        Case(
            name=_name(spec, number),
            about=spec.workload,
            time_s=result.timing.total_s,
            text=f"run: {result.run_id}",
            figures=_figures(result, workspace.plugins),
        ).judged([result], spec, workspace, allowed, results)
        for number, result in enumerate(results, 1)
    ]
    if problem is None:
        return cases
    name = _name(spec, len(results) + 1)
    return [*cases, Case(name=name, about=spec.workload, outcome="error", type="infrastructure", message=problem)]


def _name(spec: RunSpec, number: int) -> str:
    return spec.experiment if number == 1 else f"{spec.experiment} {number}"


def _figures(result: Result, plugins: Plugins) -> dict[str, tuple[Any, str]]:
    """The numbers of the result, by their columns in the history, with their units."""
    columns = plugins.history.columns().items()
    return {name: (_member(result, name), unit) for name, (kind, unit) in columns if kind == "number"}


def _member(value: Any, name: str) -> Any:
    """The member of a record with this dotted name; None if there is none."""
    for part in name.split("."):
        value = getattr(value, part, None)
    return value
