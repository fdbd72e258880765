"""The published figure for exactly the work of some runs, and the judge's verdict on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..measure.judge import ReferenceVerdict
from ..model import Result, RunSpec, Workload

if TYPE_CHECKING:
    from ..record.folder import Run
    from .workspace import Workspace


def decided(result: Result, spec: RunSpec, workload: Workload) -> bool:
    """Whether the result can be called fast enough or too slow: False for an unstable window of a benchmark.

    A benchmark is a comparable result of at least as many steps as its recipe has. Other runs have nothing to decide.
    """
    recipe = next((candidate for candidate in workload.recipes if candidate.name == spec.recipe), None)
    benchmark = result.comparable and (recipe is None or spec.steps >= recipe.steps)
    return result.stability.verdict == "stable" or not benchmark


def against_published(
    results: Sequence[Result], spec: RunSpec, workload: Workload, workspace: Workspace, allowed: float
) -> ReferenceVerdict | None:
    """Compare the stable, comparable results of repeats with the published row; None if there is nothing to compare.

    One run is judged by the variation of earlier repeats on its machine. `allowed` is the tolerated slowdown (a
    fraction).
    """
    from ..record.names import find_run

    row = spec.exact_row(workload)
    stable = [r for r in results if r.comparable and r.step_time_s.mean and r.stability.verdict == "stable"]
    if row is None or row.step_time_s is None or not stable:
        return None
    means = [r.step_time_s.mean for r in stable if r.step_time_s.mean]
    install, plugins = workspace.install, workspace.plugins
    if len(stable) > 1:
        return plugins.judge.against_reference(row, means, [], allowed)
    run = find_run(install, stable[0].run_id)
    groups = plugins.history.earlier_repeats(install, run, plugins, {stable[0].run_id})
    judge = plugins.judge.after_repeats(groups)
    return judge.against_reference(row, means, _times(stable[0], run), allowed)


def _times(result: Result, run: Run) -> list[float]:
    """The times of the result's measured steps in seconds."""
    from ..record.folder import read_steps

    steps = read_steps(run.path)
    return [
        s.time_s for s in steps if s.time_s is not None and not s.skipped and result.window.holds(s.number, s.covers)
    ]
