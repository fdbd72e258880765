"""Compare two sides of runs by their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api.verbs import Run, load_plugins

from . import compare_runs, measured
from .comparison import Comparison


def compare_folders(a: Sequence[Path], b: Sequence[Path], tolerance: float) -> Comparison:
    """Compare the runs in these folders, oldest first. Runs that are not comparable are shown without a verdict."""
    plugins = load_plugins()
    side_a, side_b = ([measured(Run.read(folder), plugins) for folder in side] for side in (a, b))
    return compare_runs(side_a, side_b, tolerance, force=True)
