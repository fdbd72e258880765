"""Measure training logs for `llmbx parse`: a row for each log, with or without the run of llmbx that wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from ..logs.find import LogFile
from ..logs.parser import LogFormat
from ..model import Figures, Step, Value
from ..model.failure import Failure
from ..model.result import CheckOutcome
from ..run.checks import first, texts
from .parse_machine import UNKNOWN, Machine
from .parse_reading import Reading, read

if TYPE_CHECKING:
    from ..plugins.manager import Plugins

SUCCESS = "Success"

LATE = "Failed (after its last step)"
"""Of a log whose measured data is valid, although the training failed in the end."""

MAX_STEP_TIME_S = 1e9
"""Longer step times (over 30 years) come from damaged logs; no confidence interval is computed for them."""


class Row(Value, frozen=True):
    """The measurement of one log, and the facts of its file.

    `status` is Success, or Failed with the reason; the reason is the number of iterations if the log ends before the
    window. `steady` has the figures over the steady state if the window is the recipe's. `step_time_interval_s` is the
    95 % confidence interval of the mean, which accounts for the correlation of consecutive steps; it is None unless
    requested. `cause` is the line of the log that explains a failure, `failure` what is known about it, `unread`
    why no step could be read. `unit` is that
    of times in tables. `checks` has the checks that found something or were not possible, `notes` the warnings about
    the measured steps.
    """

    path: str
    experiment: str
    format: str | None
    status: str
    figures: Figures
    steady: Figures | None = None
    step_time_interval_s: tuple[float, float] | None = None
    attempts: int = 1
    cause: str | None = None
    failure: Failure | None = None
    unread: str | None = None
    unit: Literal["s", "ms"] = "s"
    checks: tuple[CheckOutcome, ...] = ()
    notes: tuple[str, ...] = ()
    out_of_order: bool = False

    @property
    def valid(self) -> bool:
        """Whether the log contains a valid measurement."""
        return self.status in (SUCCESS, LATE)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Findings that leave the measurement valid, one line each."""
        lines = [line for kind in ("failed", "not comparable", "warning") for line in texts(self.checks, kind)]
        lines += self.notes if self.valid else ()
        lines += self._empty_window()
        unstable = self.figures.stability
        if unstable.warning is not None and unstable.verdict != "too few steps":  # for these the table is enough
            lines.append(unstable.warning)
        return tuple(lines)

    @property
    def reason(self) -> str:
        """Why it is not a success, in one line: the reason in the status, or that of an empty window, and the cause."""
        reason = self.status.removeprefix("Failed (").removesuffix(")")
        return "; ".join([*(self._empty_window() or [reason]), *([self.cause] if self.cause else [])])

    def _empty_window(self) -> list[str]:
        window, seen = self.figures.window, self.figures.steps_seen
        if self.figures.steps_measured or not seen or window.reason is None:
            return []
        if self.out_of_order:  # then no window has a figure
            return []
        hint = "" if window.policy in ("auto", "last") else "; try --window auto"
        return [f"nothing was measured in the window {window.policy}: {window.reason}{hint}"]


def parse_logs(
    logs: Iterable[LogFile],
    formats: Sequence[LogFormat],
    plugins: Plugins,
    window: str | None = None,
    intervals: bool = False,
    machine: Machine = UNKNOWN,
) -> list[Row]:
    """Measure each log. Files of unknown format that were found in a folder are skipped, unless they belong to a run or
    their name starts with log.

    `plugins` judge the logs, and read those of runs of llmbx. `window` overrides the default window of each log's
    format or run. `intervals` adds confidence intervals, which take about
    20 ms per log. `machine` is that of logs without a run. Raises `InfraError` if a log cannot be read.
    """
    readings = (read(log, formats, plugins) for log in logs)
    return [measure_log(reading, window, intervals, machine) for reading in readings if reading is not None]


def measure_log(reading: Reading, window: str | None, intervals: bool = False, machine: Machine = UNKNOWN) -> Row:
    """Measure a log that was read, over a window (None: that of its recipe or run)."""
    figures = _figures(reading, window, machine)
    checks = reading.checks(figures)
    status, cause = _verdict(reading, figures, checks)
    row = Row(
        path=reading.file.path,
        experiment=reading.file.experiment,
        format=reading.format.name if reading.format else None,
        status=status,
        figures=figures,
        step_time_interval_s=_interval(reading, figures) if intervals else None,
        out_of_order=reading.log.out_of_order is not None,
        attempts=reading.log.attempts,
        cause=cause,
        failure=reading.log.failure if cause is not None else None,
        unit=reading.format.unit if reading.format else "s",
        checks=checks,
        notes=(*figures.warnings, *reading.log.notes, *_unfinished(reading, status)),
    )
    if not row.valid:
        return _explained(row, reading)
    if window is None and figures.window.policy != "auto" and figures.steps_seen > 1:
        row = row.replace(steady=_figures(reading, "auto", machine))
    return row


def _figures(reading: Reading, window: str | None, machine: Machine) -> Figures:
    figures = reading.figures(window)
    return machine.place(figures) if reading.run is None else figures


def _verdict(reading: Reading, figures: Figures, checks: tuple[CheckOutcome, ...]) -> tuple[str, str | None]:
    """Status and cause. A log without a run that ends with a failure before its last step is that of a failed training;
    if the failure follows the last step, it is a finding of the checks.
    """
    log, invalid, late = reading.log, first(checks, "invalid"), first(checks, "failed")
    cause = _cause(log.failure)
    if invalid is not None:
        return f"Failed ({invalid.text})", cause
    if not figures.steps_measured:
        return _unmeasured(reading.steps), cause
    if reading.end is not None and cause is not None:
        return f"Failed (ended with {reading.end})", cause
    return (LATE, late.text) if late is not None else (SUCCESS, None)


def _unmeasured(steps: Sequence[Step]) -> str:
    if steps and all(step.time_s is None for step in steps):
        return f"Failed (none of {len(steps)} iterations has a time)"
    return f"Failed ({len(steps)} iterations)"


def _cause(found: Failure | None) -> str | None:
    return found.cause if found is not None else None


def _unfinished(reading: Reading, status: str) -> list[str]:
    """The note that the log ends before the step that it announces, unless the status says so."""
    if reading.end is None or reading.log.steps[-1].total is None or status == f"Failed (ended with {reading.end})":
        return []
    return [f"the log ends with {reading.end}: {_cause(reading.log.failure) or 'the training failed, or continues'}"]


def _explained(row: Row, reading: Reading) -> Row:
    """The row of a log without a valid measurement, with the state of its run or the reason why nothing was read."""
    if reading.is_running:
        return row.replace(status=f"Running ({len(reading.steps)} iterations)", cause=None, failure=None)
    if reading.is_wrong_format if reading.steps else row.cause is None:
        return row.replace(unread=reading.unread)
    return row


def _interval(reading: Reading, figures: Figures) -> tuple[float, float] | None:
    """The confidence interval of the mean step time."""
    window = figures.window
    times = [
        s.time_s for s in reading.steps if s.time_s is not None and not s.skipped and window.holds(s.number, s.covers)
    ]
    if not figures.steps_measured or len(times) < 2:
        return None
    if min(times) <= 0 or max(times) >= MAX_STEP_TIME_S:
        return None
    return reading.plugins.judge.interval(times)
