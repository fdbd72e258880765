"""Compare two sides of runs for core: the outcome of `llmbx run --against`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from llmbx.api import ComparisonOutcome
from llmbx.api.verbs import Run, load_plugins

from . import compare_runs, measured
from .render import render


def compare_folders(a: Sequence[Path], b: Sequence[Path], tolerance: float) -> ComparisonOutcome:
    """Compare the runs in these folders, oldest first. Runs that are not comparable are shown without a verdict."""
    plugins = load_plugins()
    one, two = ([measured(Run.read(folder), plugins) for folder in side] for side in (a, b))
    found = compare_runs(one, two, tolerance, force=True)
    return ComparisonOutcome(
        verdict=found.verdict, exit_code=found.exit_code, text=render(found), data=msgspec.to_builtins(found)
    )
