"""Read the log of a run, or a stranger's, for its explanation."""

from __future__ import annotations

from pathlib import Path

from llmbx.api import UsageError
from llmbx.api.verbs import Plugins, TrainingLog

from .explanation import Explanation, place_of


def explain(path: Path, plugins: Plugins) -> Explanation:
    """The explanation of the log at a path, or in a run's folder. Raises `UsageError` for none, or more than one."""
    logs = TrainingLog.read(path, plugins)
    if not logs:
        raise UsageError(f"{path}: no training log found; name the log itself")
    if len(logs) > 1:
        raise UsageError(f"{path}: {len(logs)} logs, of which one can be explained: name it ({logs[0].path} …)")
    (log,) = logs
    found = log.failure
    if found is None:
        return Explanation(failure=None, note=f"{log.path}: nothing tells of a failure")
    lines = log.lines()
    return Explanation(failure=found, place=place_of(found, log.path, lines) if lines else None)
