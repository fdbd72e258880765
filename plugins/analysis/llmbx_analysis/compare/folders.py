"""Compare two sides of runs by their folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api.verbs import Install, Run, load_plugins

from . import compare_runs, measured
from .comparison import Comparison
from .earlier import spread_of


def compare_folders(a: Sequence[Path], b: Sequence[Path], tolerance: float, install: Install) -> Comparison:
    """Compare the runs in these folders, oldest first. Runs that are not comparable are shown without a verdict.

    The earlier runs of the install tell how much one run on each side varies.
    """
    plugins = load_plugins()
    side_a, side_b = ([measured(Run.read(folder), plugins) for folder in side] for side in (a, b))
    spread = spread_of(install, [*side_a, *side_b], plugins)
    return compare_runs(side_a, side_b, tolerance, force=True, spread=spread)
