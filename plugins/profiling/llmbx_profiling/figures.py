"""Figures of a run's profiles that `llmbx compare` can compare between runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from llmbx.api import Figure, RunFolder, mean_of

from .analysis.model import Analysis, Step
from .names import FOLDER

PARTS = (
    ("exposed_communication", "exposed_s"),
    ("communication", "communication_s"),
    ("compute", "compute_s"),
    ("idle", "idle_s"),
)
"""Names of figures, and the fields of a step that they are computed from."""


def figures(run_dir: Path) -> list[Figure]:
    """Analyze the profiles of a run and return the parts of each profiled step in seconds, as means over ranks.

    A part that is unknown for any rank is omitted. Raises `UsageError` and `InfraError` like `analyze`.
    """
    from .analysis.analyze import analyze
    from .analysis.sources import profiles_in

    return figures_of_analysis(analyze(profiles_in(RunFolder(path=run_dir), FOLDER)))


def figures_of_analysis(analysis: Analysis) -> list[Figure]:
    """Return the figures of an analysis."""
    ranks_of: dict[int | None, list[Step]] = {}
    for step in analysis.steps:
        ranks_of.setdefault(step.step, []).append(step)
    figures = []
    for name, member in PARTS:
        values = [mean_of(getattr(step, member) for step in ranks) for ranks in ranks_of.values()]
        present = [value for value in values if value is not None]
        if present and len(present) == len(values):
            figures.append(Figure(name=name, unit="s", values=tuple(present), step_s=_duration(analysis.steps)))
    return figures


def _duration(steps: Sequence[Step]) -> float:
    return fmean(step.duration_s for step in steps)
