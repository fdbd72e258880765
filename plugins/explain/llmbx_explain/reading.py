"""What the log of a run, or a stranger's, says of its failure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import TrainingLog, UsageError

from .explanation import Explanation, place_of

RECORD, CLOCKS = "run.json", "step_clocks"
ENDED = ("rank_exit", "killed", "segfault")
"""Kinds of failure whose line says how a rank ended, and not why."""


def explain(path: Path, logs: Sequence[TrainingLog]) -> Explanation:
    """The explanation of the log at a path, or in a run's folder. Raises `UsageError` for none, or more than one."""
    if not logs:
        raise UsageError(f"{path}: no training log found; name the log itself")
    if len(logs) > 1:
        raise UsageError(f"{path}: {len(logs)} logs, but only one can be explained: name it ({logs[0].path} …)")
    (log,) = logs
    failure = log.failure
    if failure is None and Path(log.path).is_file() and not Path(log.path).stat().st_size:
        raise UsageError(f"{log.path}: the file is empty")
    if failure is None and not log.steps and log.unread:
        raise UsageError(f"{log.path}: no failure found, and no step of a training either: {log.unread}")
    if failure is None:
        return Explanation(failure=None, note=f"{log.path}: no failure found{_until(log)}")
    lines = log.lines()
    place = place_of(failure, log.path, lines) if lines else None
    last = log.last_words(failure.rank) if failure.kind in ENDED and failure.rank is not None else None
    return Explanation(failure=failure, place=place, last=last)


def is_slow_run(path: Path, logs: Sequence[TrainingLog], against: str | None) -> bool:
    """Whether a path is the folder of a run of llmbx with steps that shows no failure.

    Raises `UsageError` if it is not, and is to be compared.
    """
    is_run = path.is_dir() and (path / RECORD).is_file()
    failed = any(log.failure for log in logs)
    trained = any(log.steps for log in logs) or (path / CLOCKS).is_dir()
    if against is not None and not (is_run and trained and not failed):
        why = "it is not a run of llmbx" if not is_run else "the run failed" if failed else "it has no steps"
        raise UsageError(f"--against {against}: {path}: {why}")
    return is_run and trained and not failed


def _until(log: TrainingLog) -> str:
    """Up to which step, for a log that may be of a training that continues."""
    if not log.steps:
        return ""
    last = log.steps[-1]
    return f" up to its last step, {last.number}" + (f" of {last.total}" if last.total else "")
