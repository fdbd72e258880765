"""Read the log of a run, or a stranger's, for its explanation."""

from __future__ import annotations

from pathlib import Path

from llmbx.api import TrainingLog, UsageError
from llmbx.api.verbs import Plugins

from .explanation import Explanation, place_of

ENDED = ("rank_exit", "killed", "segfault")
"""Kinds of failure whose line says how a rank ended, and not why."""


def explain(path: Path, plugins: Plugins) -> Explanation:
    """The explanation of the log at a path, or in a run's folder. Raises `UsageError` for none, or more than one."""
    logs = plugins.read_logs(path)
    if not logs:
        raise UsageError(f"{path}: no training log found; name the log itself")
    if len(logs) > 1:
        raise UsageError(f"{path}: {len(logs)} logs, but only one can be explained: name it ({logs[0].path} …)")
    (log,) = logs
    failure = log.failure
    if failure is None and Path(log.path).is_file() and not Path(log.path).stat().st_size:
        raise UsageError(f"{log.path}: the file is empty")
    if failure is None:
        return Explanation(failure=None, note=f"{log.path}: no failure found{_until(log)}")
    lines = log.lines()
    place = place_of(failure, log.path, lines) if lines else None
    last = log.last_words(failure.rank) if failure.kind in ENDED and failure.rank is not None else None
    return Explanation(failure=failure, place=place, last=last)


def _until(log: TrainingLog) -> str:
    """Up to which step, for a log that may be of a training that continues; or that it shows no training."""
    if not log.steps:
        return f", but no step of a training either: {log.unread}" if log.unread else ""
    last = log.steps[-1]
    return f" up to its last step, {last.number}" + (f" of {last.total}" if last.total else "")
