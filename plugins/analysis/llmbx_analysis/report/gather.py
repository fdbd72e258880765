"""Reading what a report is made of: results (finalised if need be), steps, profilers' sections, comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.errors import LlmbxError, UsageError
from llmbx.history import refresh_result
from llmbx.history.remeasure import rewindowed
from llmbx.history.tags import tags_of
from llmbx.launchers.nodes import read_nodes
from llmbx.model import Reference, RunSpec, Value
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import Run, read_steps

from ..compare import Comparison, compare_runs
from ..compare.published import hold
from ..compare.select import baseline, published
from .subjects import Cell, Subject, cells


class Wanted(Value, frozen=True):
    """What the user asked of a report: another window, a baseline's tag, how much slower is still the same."""

    window: str | None = None
    baseline: str | None = None
    tolerance: float = 0.05


def gather(
    found: Sequence[Run], install: Install, plugins: Plugins, config: Config, wanted: Wanted
) -> tuple[list[Cell], list[str]]:
    """The cells of these runs, held against what was published and the baseline, and which runs were left out and why.

    Raises `UsageError` when none of the runs has ended.
    """
    subjects, notes = [], []
    rivals = [run for run in found if wanted.baseline is None or wanted.baseline not in tags_of(run)]
    for run in rivals or found:
        try:
            subject = read(run, plugins, wanted.window)
        except LlmbxError as error:
            if len(found) == 1:
                raise
            notes.append(f"{run.record.run_id} cannot be read and is left out: {error}")
            continue
        if subject is None:
            notes.append(f"{run.record.run_id} has not ended: left out")
        else:
            subjects.append(subject)
    if not subjects:
        raise UsageError("; ".join(notes) or "no run to report on")
    return [held(cell, install, plugins, config, wanted) for cell in cells(subjects)], notes


def read(run: Run, plugins: Plugins, window: str | None = None) -> Subject | None:
    """One run; None while it goes on."""
    result = refresh_result(run, plugins)
    if result is None:
        return None
    steps = read_steps(run.path)
    if window is not None:
        result = rewindowed(run, result, steps, plugins, window)
    sections = plugins.report_sections(run.record.spec, run.path)
    return Subject(run=run, result=result, steps=tuple(steps), sections=tuple(sections), nodes=read_nodes(run.path))


def held(cell: Cell, install: Install, plugins: Plugins, config: Config, wanted: Wanted) -> Cell:
    """The cell with its comparisons; a comparison that makes no sense is told, never forced."""
    measured = [subject.measured for subject in cell.sound]
    found: list[Comparison] = []
    unheld: list[str] = []
    if measured and wanted.baseline is not None:
        try:
            base = baseline(install, wanted.baseline, measured, plugins, wanted.window)
            found.append(compare_runs(base, measured, wanted.tolerance, baseline=wanted.baseline))
        except UsageError as error:
            unheld.append(str(error))
    if measured and _is_published(cell.spec, plugins):
        try:
            found.append(hold(measured, plugins, config, wanted.tolerance))
        except UsageError as error:
            unheld.append(_one_line(error))
    return cell.replace(against=tuple(found), unheld=tuple(unheld), published=references(cell.spec, plugins))


def references(spec: RunSpec, plugins: Plugins) -> tuple[Reference, ...]:
    """The published rows for the run's size, dtype and GPU type at any scale; none for a plugin that is not here."""
    try:
        rows = plugins.workload(spec.workload, spec.plugin).references
    except LlmbxError:
        return ()
    wanted = (spec.size, spec.dtype, spec.gpu_type)
    return tuple(row for row in rows if (row.size, row.dtype, row.gpu_type) == wanted)


def _is_published(spec: RunSpec, plugins: Plugins) -> bool:
    try:
        published(spec, plugins.workload(spec.workload, spec.plugin))
    except LlmbxError:
        return False
    return True


def _one_line(error: UsageError) -> str:
    head, *reasons = str(error).splitlines()
    return f"{head.split(' (--force')[0]}: {'; '.join(reason.strip() for reason in reasons)}" if reasons else head
