"""Logs as members of a side: trainings of which only their log is known, started by whatever program."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from llmbx.api import Scalar, Step, TrainingLog, UsageError, plural
from llmbx.api.verbs import Install, Plugins, Run

from .comparison import Difference
from .measured import DECISIVE, WORK, Measured, inside


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredLog(Measured):
    """One log. Its result has what the log says, and None for the rest; `stated` is what the user says of its work."""

    format: str | None
    total: int | None
    stated: Mapping[str, Scalar]

    @property
    def work(self) -> Mapping[str, Scalar]:
        """What the user states, and what all measured steps have in common."""
        return {**self.stated, **_common(self.steps)}

    @property
    def unknown(self) -> tuple[str, ...]:
        """The keys that neither the user nor the log states."""
        work = self.work
        return tuple(key for key in DECISIVE if work.get(key) is None)


def find_side(install: Install, text: str, plugins: Plugins) -> Run | list[TrainingLog]:
    """The run that `text` names, else the log at this path, or the logs in this folder.

    A log in the folder of a run is that run. Raises `UsageError` if there is neither, if a file is not a log, and for a
    folder with several runs.
    """
    try:
        return plugins.find_run(install, text)
    except UsageError as error:
        path = Path(text)
        if text != "-" and not os.path.lexists(path):
            if len(path.parts) > 1 or path.suffix:
                raise UsageError(f"{text}: no such file or folder, and {error}") from None
            raise
    logs = plugins.read_logs(path)
    runs = [log.run_dir for log in logs if log.run_dir is not None]
    if runs:
        if len(logs) > 1:
            raise UsageError(f"{text} has {plural(len(runs), 'runs')}: name one")
        return plugins.find_run(install, runs[0])
    if not logs:
        raise UsageError(f"{text}: no training log (*.out) in this folder: name the log")
    for log in logs:
        if log.format is None:
            raise UsageError(f"{log.path}: {log.unread}")
    return logs


def default_window(logs: Iterable[TrainingLog]) -> str:
    """The window of all logs: that of their recipes if they have the same one with more than one step, else `auto`."""
    windows = {log.window for log in logs}
    return windows.pop() if len(windows) == 1 and "last" not in windows else "auto"


def measured_log(log: TrainingLog, window: str, stated: Mapping[str, Scalar]) -> MeasuredLog:
    """Measure a log over a window."""
    result = log.measure(window)
    return MeasuredLog(
        result=result,
        steps=tuple(step for step in log.steps if inside(step, result)),
        format=log.format,
        total=log.steps[-1].total if log.steps else None,
        stated=stated,
    )


def log_differences(a: Measured, b: Measured) -> tuple[Difference, ...]:
    """The differences that two logs state; nothing is known if one side is a run."""
    if not isinstance(a, MeasuredLog) or not isinstance(b, MeasuredLog):
        return ()
    settings = (
        Difference(weight=60, what="log format", a=a.format, b=b.format),
        Difference(weight=45, what="steps", a=a.total, b=b.total),
    )
    stated = [
        Difference(weight=60, what=WORK[key], a=value, b=b.work[key])
        for key, value in a.work.items()
        if key in WORK and value is not None and b.work.get(key) is not None
    ]
    return tuple(difference for difference in (*settings, *stated) if difference.a != difference.b)


def _common(steps: Sequence[Step]) -> dict[str, Scalar]:
    """The batch and the tokens of the measured steps, if all steps that have them have the same."""
    sizes = {"global_batch_size": {step.global_batch_size for step in steps} - {None},
             "tokens_per_step": {step.tokens for step in steps} - {None}}  # fmt: skip
    return {key: values.pop() for key, values in sizes.items() if len(values) == 1}
