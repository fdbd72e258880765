"""Read the data of a report: results (finalized if necessary), steps, sections of profilers, comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.api import LlmbxError, Reference, RunSpec, UsageError, Value
from llmbx.api.verbs import Config, Install, Plugins, Run, refresh_result

from ..compare import Comparison, compare_runs
from ..compare.earlier import spread_of
from ..compare.published import compare_with_published
from ..compare.sides import baseline, published
from .cells import Cell, RunData, cells

MOST_DETAILED = 12
"""Runs up to which a report has the sections that plugins write about each run: four charts or so for each."""


class ReportOptions(Value, frozen=True):
    """Options of a report: the window policy (None: that of each run), the baseline tag, the tolerance (a fraction)."""

    window: str | None = None
    baseline: str | None = None
    tolerance: float = 0.05


def gather(
    found: Sequence[Run], install: Install, plugins: Plugins, config: Config, options: ReportOptions
) -> tuple[list[Cell], list[str]]:
    """The cells of these runs with their comparisons, and notes on the runs that were left out.

    Runs that have the tag of the baseline are not reported, unless all have it. Raises `UsageError` if none of the runs
    has ended. Of many runs, what plugins write about each is left out, with a note.
    """
    runs, notes = [], []
    others = [run for run in found if options.baseline is None or options.baseline not in plugins.history.tags(run)]
    chosen = others or found
    detailed = len(chosen) <= MOST_DETAILED
    if not detailed:
        notes.append(f"{len(chosen)} runs: for the profiles and the telemetry of one, use llmbx report RUN --single")
    for run in chosen:
        try:
            data = read(run, plugins, options.window, detailed)
        except LlmbxError as error:
            if len(found) == 1:
                raise
            notes.append(f"{run.record.run_id} left out: {error}")
            continue
        if data is None:
            notes.append(f"{run.record.run_id} left out: it has not ended")
        else:
            runs.append(data)
    if not runs:
        raise UsageError("; ".join(notes) or "no run to report on")
    return [with_comparisons(cell, install, plugins, config, options) for cell in cells(runs)], notes


def read(run: Run, plugins: Plugins, window: str | None = None, detailed: bool = True) -> RunData | None:
    """Read one run, with what plugins write about it if it is to be `detailed`; None if it has not ended."""
    result = refresh_result(run, plugins, window)
    if result is None:
        return None
    steps = run.read_steps()
    sections = plugins.report_sections(run.record.spec, run.path) if detailed else ()
    return RunData(run=run, result=result, steps=tuple(steps), sections=tuple(sections), nodes=run.read_nodes())


def with_comparisons(
    cell: Cell, install: Install, plugins: Plugins, config: Config, options: ReportOptions
) -> Cell:  # fmt: skip
    """The cell with its comparisons. If one is not possible, the reason is stored in `not_compared`."""
    measured = [run.measured for run in cell.valid_runs]
    comparisons: list[Comparison] = []
    not_compared: list[str] = []
    if measured and options.baseline is not None:
        try:
            base = baseline(install, options.baseline, measured, plugins, options.window)
            spread = spread_of(install, [*base, *measured], plugins)
            comparisons.append(
                compare_runs(base, measured, options.tolerance, baseline=options.baseline, spread=spread)
            )
        except UsageError as error:
            not_compared.append(str(error))
    if measured and _is_published(cell.spec, plugins):
        try:
            spread = spread_of(install, measured, plugins)
            comparisons.append(compare_with_published(measured, plugins, config, options.tolerance, spread=spread))
        except UsageError as error:
            not_compared.append(str(error))
    not_compared += [_why_not(comparison) for comparison in comparisons if comparison.verdict == "not comparable"]
    return cell.replace(
        comparisons=tuple(comparison for comparison in comparisons if comparison.verdict != "not comparable"),
        not_compared=tuple(not_compared),
        published=references(cell.spec, plugins),
    )


def references(spec: RunSpec, plugins: Plugins) -> tuple[Reference, ...]:
    """The published rows with the run's size, dtype and GPU type at any scale; none if the plugin is not installed."""
    try:
        rows = plugins.workload(spec.workload, spec.plugin).references
    except LlmbxError:
        return ()
    key = (spec.size, spec.dtype, spec.gpu_type)
    return tuple(row for row in rows if (row.size, row.dtype, row.gpu_type) == key)


def _is_published(spec: RunSpec, plugins: Plugins) -> bool:
    try:
        published(spec, plugins.workload(spec.workload, spec.plugin))
    except LlmbxError:
        return False
    return True


def _why_not(found: Comparison) -> str:
    other = "the published figures" if found.a.kind == "reference" else f"the baseline {found.a.label}"
    return f"{found.b.label} and {other} are not comparable: {found.reason}"
