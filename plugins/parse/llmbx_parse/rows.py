"""A row of `llmbx parse`: the figures of one log, and the facts of its file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from llmbx.api import Failure, LogFormat, Result
from llmbx.api.verbs import Plugins

from .find import LogFile
from .machine import UNKNOWN, Machine
from .parsed_log import ParsedLog, parse_file

SUCCESS = "Success"

LATE = "Failed (after its last step)"
"""Of a log whose measured data is valid, although the training failed in the end."""

MAX_STEP_TIME_S = 1e9
"""Longer step times (over 30 years) come from damaged logs; they get no confidence interval."""


@dataclasses.dataclass(frozen=True)
class Row:
    """The figures of one log, and the facts of its file.

    `status` is Success, or Failed with the reason; the reason is the number of iterations if the
    log ends before the window. `steady` has the figures over the steady state if the window is the
    recipe's. `step_time_interval_s` is the 95 % confidence interval of the mean, which accounts for
    the correlation of consecutive steps; it is None unless requested. `cause` is the line of the
    log that explains a failure, `failure` what is known about it, `unread` why no step could be
    read. `unit` is that of times in tables. `checks` has the outcomes of the checks that found
    something or were not possible, `notes` the warnings about the measured steps.
    """

    path: str
    experiment: str
    format: str | None
    status: str
    figures: Result
    steady: Result | None = None
    step_time_interval_s: tuple[float, float] | None = None
    attempts: int = 1
    cause: str | None = None
    failure: Failure | None = None
    unread: str | None = None
    unit: Literal["s", "ms"] = "s"
    checks: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    out_of_order: bool = False

    @property
    def valid(self) -> bool:
        """Whether the log contains a valid measurement."""
        return self.status in (SUCCESS, LATE)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Findings that leave the measurement valid, one line each."""
        lines = [
            f"{check.text} (check {check.check})"
            for outcome in ("failed", "not comparable", "warning")
            for check in self.checks
            if check.outcome == outcome
        ]
        lines += self.notes if self.valid else ()
        lines += self._empty_window()
        stability = self.figures.stability
        if stability.warning is not None and stability.verdict != "too few steps":
            lines.append(stability.warning)  # for too few steps the table is enough
        return tuple(lines)

    @property
    def reason(self) -> str:
        """Why it is not a success, in one line.

        The reason in the status, or that of an empty window, and the cause.
        """
        reason = self.status.removeprefix("Failed (").removesuffix(")")
        causes = [self.cause] if self.cause else []
        return "; ".join([*(self._empty_window() or [reason]), *causes])

    def _empty_window(self) -> list[str]:
        window, seen = self.figures.window, self.figures.steps_seen
        if self.figures.steps_measured or not seen or window.reason is None:
            return []
        if self.out_of_order:  # then no window has a figure
            return []
        hint = "" if window.policy in ("auto", "last") else "; try --window auto"
        return [f"nothing was measured in the window {window.policy}: {window.reason}{hint}"]


def parse_logs(
    files: Iterable[LogFile],
    formats: Sequence[LogFormat],
    plugins: Plugins,
    window: str | None = None,
    intervals: bool = False,
    machine: Machine = UNKNOWN,
) -> list[Row]:
    """Read and measure each log; see `parse_file` and `row_of`."""
    logs = (parse_file(file, formats, plugins) for file in files)
    return [row_of(log, window, intervals, machine) for log in logs if log is not None]


def row_of(
    log: ParsedLog,
    window: str | None,
    intervals: bool = False,
    machine: Machine = UNKNOWN,
) -> Row:
    """Measure a log that was read, over a window (None: that of its recipe or run).

    `intervals` adds confidence intervals, which take about 20 ms per log. `machine` is that of logs
    without a run.
    """
    result = machine.measure(log, window)
    figures, checks = result.replace(checks=()), result.checks
    status, cause = _verdict(log, result)
    reading = log.reading
    row = Row(
        path=log.path,
        experiment=log.file.experiment,
        format=log.format,
        status=status,
        figures=figures,
        step_time_interval_s=_interval(log, figures) if intervals else None,
        out_of_order=reading.log.out_of_order is not None,
        attempts=reading.log.attempts,
        cause=cause,
        failure=reading.log.failure if cause is not None else None,
        unit=log.log_format.unit if log.log_format else "s",
        checks=checks,
        notes=(*figures.warnings, *reading.log.notes, *_unfinished(log, status)),
    )
    if not row.valid:
        return _explained(row, log)
    if window is None and figures.window.policy != "auto" and figures.steps_seen > 1:
        steady = machine.measure(log, "auto", checked=False)
        return dataclasses.replace(row, steady=steady)
    return row


def _verdict(log: ParsedLog, figures: Result) -> tuple[str, str | None]:
    """Status and cause.

    A log without a run that ends before its last step, with a failure or with its only step, is
    that of a failed training; if the failure follows the last step, it is a finding of the checks.
    """
    cause = _cause(log.reading.log.failure)
    invalid = _first_finding(figures, "invalid")
    if invalid is not None:
        return f"Failed ({invalid})", cause
    if not figures.steps_measured:
        return _unmeasured(log), cause
    if log.end is not None and (cause is not None or len(log.steps) == 1):
        return f"Failed (ended with {log.end})", cause
    late = _first_finding(figures, "failed")
    return (LATE, late) if late is not None else (SUCCESS, None)


def _first_finding(figures: Result, outcome: str) -> str | None:
    texts = (check.text for check in figures.checks if check.outcome == outcome)
    return next(texts, None)


def _unmeasured(log: ParsedLog) -> str:
    if log.steps and all(step.time_s is None for step in log.steps):
        return f"Failed (none of {len(log.steps)} iterations has a time)"
    return f"Failed ({len(log.steps)} iterations)"


def _cause(failure: Failure | None) -> str | None:
    return failure.cause if failure is not None else None


def _unfinished(log: ParsedLog, status: str) -> list[str]:
    """The note that the log ends before the step that it announces, unless the status says so."""
    end, parsed = log.end, log.reading.log
    if end is None or parsed.steps[-1].total is None or status == f"Failed (ended with {end})":
        return []
    cause = _cause(parsed.failure) or "the training failed, or continues"
    return [f"the log ends with {end}: {cause}"]


def _explained(row: Row, log: ParsedLog) -> Row:
    """The row of a log without a valid measurement: the state of its run, or why it is unread."""
    if log.reading.is_running:
        status = f"Running ({len(log.steps)} iterations)"
        return dataclasses.replace(row, status=status, cause=None, failure=None)
    if log.is_wrong_format if log.steps else row.cause is None:
        return dataclasses.replace(row, unread=log.unread)
    return row


def _interval(log: ParsedLog, figures: Result) -> tuple[float, float] | None:
    """The confidence interval of the mean step time."""
    window = figures.window
    times = [
        step.time_s
        for step in log.steps
        if step.time_s is not None and not step.skipped and window.holds(step.number, step.covers)
    ]
    if not figures.steps_measured or len(times) < 2:
        return None
    if min(times) <= 0 or max(times) >= MAX_STEP_TIME_S:
        return None
    return log.reading.plugins.judge.interval(times)
