"""Measure training logs for `llmbx parse`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..checks import GROUPS, first, run_checks, texts
from ..checks.base import OWN_CHECK
from ..checks.timing import ORDER
from ..errors import InfraError, LlmbxError
from ..logs.find import LogFile, sniff
from ..logs.parser import LogFormat, LogParser
from ..logs.unread import why
from ..measure import stability, stats
from ..measure.figures import ROUNDED, Figures, measure_plain
from ..measure.intervals import over_steps
from ..measure.measures import summarize
from ..measure.window import choose
from ..model import Event, Measure, Result, Step, Value
from ..model.result import CheckOutcome, MeasureFacts, Stability, Tflops, Window
from ..record.folder import RESULT, STEPS, Run, read_result, read_run, read_steps
from ..run.collect import collect_file, collect_run, collect_source
from ..run.collector import Log
from ..run.evidence import gather
from ..run.verdict import PRIORITY, reached_end
from ..run_files import RunFile

SUCCESS = "Success"

LATE = "Failed (after its last step)"
"""Of a log whose measured data is valid, although the training failed in the end."""

WORK = frozenset(check.id for check in GROUPS["Work"])
"""Checks that also read the final configuration, which is beside the log."""

MAX_STEP_TIME_S = 1e9
"""Longer step times (over 30 years) come from damaged logs; no confidence interval is computed for them."""

MeasureRun = Callable[[Run, Sequence[Step], str | None], Figures]
"""Measures the steps of a run of llmbx. Arguments: the run, its steps, a window that overrides the run's (or None)."""

GoesOn = Callable[[Run], bool]
"""Whether a run without a result has not ended."""

ParserOf = Callable[[Run], LogParser | None]
"""The parser that the run itself was read with; None if its plugin is missing."""


class Steady(Value, frozen=True):
    """The measurement of the same log over its steady state (window `auto`). Units as in `Row`."""

    window: str | None = None
    window_reason: str | None = None
    steps_measured: int = 0
    step_time_mean_s: float | None = None
    step_time_std_s: float | None = None
    step_time_median_s: float | None = None
    tflops_per_gpu_mean: float | None = None
    tflops_per_gpu_std: float | None = None
    tflops_source: Literal["log", "recomputed"] | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None
    measures: dict[str, MeasureFacts] = {}
    stability: Stability = Stability()


class Row(Value, frozen=True):
    """The measurement of one log. Times in seconds, rates per second, `mfu` as a fraction; unknown values are None.

    `status` is Success, or Failed with the reason; the reason is the number of iterations if the log ends before the
    window. `window` is the range of measured steps (A-B), or the requested range if there are none; `window_policy`
    is how it was chosen. `step_time_cv` is the standard deviation divided by the mean. `step_time_interval_s` is the
    95 % confidence interval of the mean, which accounts for the correlation of consecutive steps; it is None unless
    requested. `cause` is the line of the log that explains a failure. `steady` is the measurement over the steady
    state if the window is the recipe's. `stability` is that of the window (docs/stability.md). `checks` has the checks
    that found something or were not possible, `notes` the warnings about the measured steps.
    """

    path: str
    experiment: str
    format: str | None
    status: str
    window: str | None = None
    window_policy: str | None = None
    window_reason: str | None = None
    steps_measured: int = 0
    steps_seen: int = 0
    step_time_mean_s: float | None = None
    step_time_std_s: float | None = None
    step_time_median_s: float | None = None
    step_time_min_s: float | None = None
    step_time_max_s: float | None = None
    step_time_cv: float | None = None
    step_time_interval_s: tuple[float, float] | None = None
    tflops_per_gpu_mean: float | None = None
    tflops_per_gpu_std: float | None = None
    tflops_source: Literal["log", "recomputed"] | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None
    measures: dict[str, MeasureFacts] = {}
    stability: Stability = Stability()
    attempts: int = 1
    cause: str | None = None
    unit: Literal["s", "ms"] = "s"
    steady: Steady | None = None
    checks: tuple[CheckOutcome, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether the log contains a valid measurement."""
        return self.status in (SUCCESS, LATE)

    @property
    def out_of_order(self) -> bool:
        """Whether the steps' lines are out of order, so that no window has a figure."""
        return any(found.check == ORDER.id for found in self.checks)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Findings that leave the measurement valid, one line each."""
        found = [line for kind in ("failed", "not comparable", "warning") for line in texts(self.checks, kind)]
        found += self.notes if self.valid else ()
        if not self.steps_measured and self.steps_seen and self.window_reason is not None and not self.out_of_order:
            hint = "" if self.window_policy in ("auto", "last") else "; try --window auto"
            found.append(f"nothing was measured in the window {self.window_policy}: {self.window_reason}{hint}")
        unstable = self.stability.warning
        if unstable is not None and self.stability.verdict != "too few steps":  # for these the table is enough
            found.append(unstable)
        return tuple(found)


def parse_logs(
    logs: Iterable[LogFile], formats: Sequence[LogFormat], window: str | None = None, measure: MeasureRun | None = None,
    intervals: bool = False, parser_of: ParserOf = lambda run: None, goes_on: GoesOn = lambda run: False,
) -> list[Row]:  # fmt: skip
    """Measure each log. Files of unknown format that were found in a folder are skipped, unless they belong to a run or
    their name starts with log.

    `window` overrides the default window of each log's format or run. `measure` computes the figures of runs of
    llmbx; `parser_of` has the parsers that they were read with, `goes_on` tells which have not ended. `intervals`
    adds confidence intervals, which take about 20 ms per log. Raises `InfraError` if a log cannot be read.
    """
    rows = [parse_log(log, formats, window, measure, intervals, parser_of, goes_on) for log in logs]
    return [row for row in rows if row is not None]


def parse_log(
    log: LogFile, formats: Sequence[LogFormat], window: str | None = None, measure: MeasureRun | None = None,
    intervals: bool = False, parser_of: ParserOf = lambda run: None, goes_on: GoesOn = lambda run: False,
) -> Row | None:  # fmt: skip
    """Measure one log (see `parse_logs`). None if the file is skipped."""
    path, run = log.file, _run(log)
    try:
        format_ = _format(log, formats) if path.exists() else None
        own = parser_of(run) if run is not None and path.exists() else None
        parser = own or (format_.parser() if format_ else None)
        read = _read(parser, log, run) if parser else Log()
    except OSError as error:
        raise InfraError(f"{path}: cannot be read: {error.strerror}") from None
    if format_ is None and log.run_dir is None and not log.named and not path.name.startswith("log"):
        return None
    row: Callable[[str | None], Row]
    logged, known, result = read.steps, run if measure is not None else None, _result(run)
    if known is not None and measure is not None:
        stored, fault = _stored_steps(known, result)
        use = stored if stored and not (fault and read.steps) else read.steps
        read = read.replace(steps=use, notes=(*read.notes, *([fault] if fault else [])))
        row = partial(_measured_row, log, format_, read, known, measure, intervals)
        figures = measure(known, read.steps, window)
    else:
        row = partial(_plain_row, log, format_, read, intervals, measures_of(parser))
        figures = measure_plain(read.steps, _policy(log, format_, window), measures_of(parser))
    evidence = read.replace(steps=logged or read.steps)
    # If the log is gone, only the result says what the checks found.
    outcomes = _outcomes(known, result, evidence, parser, figures) if parser else result.checks if result else ()
    chosen = _checked(row(window), outcomes, read.events).replace(notes=(*figures.warnings, *read.notes))
    chosen = _ended(chosen, evidence) if run is None else chosen
    if run is not None and result is None and not chosen.valid and goes_on(run):
        chosen = chosen.replace(status=f"Running ({len(read.steps)} iterations)", cause=None)
    elif log.kind is None and not chosen.valid and _misread(path, read, log, format_, formats, chosen):
        chosen = chosen.replace(cause=why(path, format_, formats))
    return chosen if window is not None else chosen.replace(steady=_steady(chosen, row))


def _misread(
    path: Path | RunFile, read: Log, log: LogFile, format_: LogFormat | None, formats: Sequence[LogFormat], row: Row
) -> bool:  # fmt: skip
    """Whether no step was read and no failure explains it, or the file is in another format than the one asked for."""
    if not read.steps:
        return row.cause is None
    known = sniff(path, formats) if log.format is not None and path.is_file() else None
    return known is not None and format_ is not None and known.name != format_.name


def _format(log: LogFile, formats: Sequence[LogFormat]) -> LogFormat | None:
    """The format that was chosen for the file, else the one that recognizes it."""
    if log.format is None:
        return sniff(log.file, formats)
    return next((format_ for format_ in formats if format_.name == log.format), None)


def _read(parser: LogParser, log: LogFile, run: Run | None) -> Log:
    """The steps and events of a log, of a run with its other files, or of one such file."""
    if log.kind is not None:
        return collect_source(parser, log.file, log.kind)
    return collect_run(parser, run) if run is not None else collect_file(parser, log.file)


def measures_of(parser: LogParser | None) -> tuple[Measure, ...]:
    """The measures that a checked parser declares."""
    found: tuple[Measure, ...] = getattr(parser, "measures", ())
    return found


def _checked(row: Row, outcomes: tuple[CheckOutcome, ...], events: Sequence[Event]) -> Row:
    """The row with the outcomes of the checks; a finding that makes the data invalid is the reason of a failure."""
    invalid = first(outcomes, "invalid")
    failed: Row = row.replace(checks=outcomes, status=f"Failed ({invalid.text})" if invalid else row.status)
    if invalid and row.valid:
        return failed.replace(cause=_cause(events))
    late = first(outcomes, "failed")
    return failed.replace(status=LATE, cause=late.text) if late and failed.valid else failed


def _outcomes(
    run: Run | None, result: Result | None, read: Log, parser: LogParser, figures: Figures
) -> tuple[CheckOutcome, ...]:
    """The outcomes of the checks of a log; `run` is the run of llmbx that wrote it."""
    number = getattr(parser, "first_step", None)
    if run is None:
        well = _announced_end(read.steps)
    else:
        ended = result is not None and result.exit_code == 0
        well = ended and reached_end(run.record.spec, read.steps, number)
    lasted = result.timing.total_s if result is not None else None
    prints = getattr(parser, "prints", None)
    found = run_checks(gather(run, read, prints, figures, first=number, ended_well=well, lasted_s=lasted))
    if run is None or result is None:
        return found
    own = (each for each in result.checks if OWN_CHECK in each.check)  # a plugin's, as the run recorded it
    return (*(_of_run(each, result) for each in found), *own)


def _announced_end(steps: Sequence[Step]) -> bool:
    """Whether the log has the last step that it announces."""
    last = steps[-1] if steps else None
    return last is not None and last.total is not None and last.number >= last.total


def _ended(row: Row, log: Log) -> Row:
    """The row of a log without a run, which is the only witness of its end.

    With a failure after its last step it is that of a failed training, unless that is the last step which it announces:
    then the failure is a finding of the checks. Without one the training may go on, and the row gets a warning.
    """
    last = log.steps[-1] if log.steps else None
    if last is None or (last.total is not None and last.number >= last.total):
        return row
    where = f"step {last.number}" + (f" of {last.total}" if last.total is not None else "")
    why = _cause(log.after)
    if why is not None and row.valid:
        return row.replace(status=f"Failed (ended with {where})", cause=why)
    if last.total is None:
        return row
    known = _cause(log.events) or "the training failed, or goes on"
    return row.replace(notes=(*row.notes, f"the log ends with {where}: {known}"))


def _of_run(outcome: CheckOutcome, result: Result) -> CheckOutcome:
    """The outcome; the run's own if it is not possible here, as the log does not have the final configuration."""
    stored = next((each for each in result.checks if each.check == outcome.check), outcome)
    return stored if outcome.outcome == "not possible" and outcome.check in WORK else outcome


def _result(run: Run | None) -> Result | None:
    try:
        return read_result(run.path) if run is not None else None
    except LlmbxError:
        return None


def _run(log: LogFile) -> Run | None:
    """The run that the log belongs to; None for other logs and if the record cannot be read."""
    try:
        return read_run(Path(log.run_dir)) if log.run_dir is not None else None
    except LlmbxError:
        return None


def _stored_steps(run: Run, result: Result | None) -> tuple[list[Step], str | None]:
    """The steps stored in the folder of a finished run, none if it is not finished; and what is wrong with them."""
    if not run.files.file(RESULT).exists():
        return [], None
    try:
        found = read_steps(run.path)
    except LlmbxError as error:
        return [], f"{error}; the log is measured"
    seen = result.steps_seen if result is not None else 0
    short = f"{STEPS} has {len(found)} of {seen} steps; the log is measured, if it is there"
    return found, short if len(found) < seen else None


def _steady(chosen: Row, row: Callable[[str | None], Row]) -> Steady | None:
    """The measurement over the steady state; None if that is already the window or there are too few steps."""
    if not chosen.valid or chosen.window_policy == "auto" or chosen.steps_seen < 2:
        return None
    auto = row("auto")
    return Steady(**{name: getattr(auto, name) for name in Steady.__struct_fields__})


def _measured_row(
    log: LogFile,
    format_: LogFormat | None,
    read: Log,
    run: Run,
    measure: MeasureRun,
    intervals: bool,
    window: str | None,
) -> Row:
    figures = measure(run, read.steps, window)
    fit = (step for step in read.steps if figures.window.holds(step.number) and not step.skipped)
    inside = [step.time_s for step in fit if step.time_s is not None]
    row = _row(log, format_, read, figures.window, figures.steps_measured, figures.tflops_per_gpu)
    time = figures.step_time_s
    full: Row = row.replace(
        step_time_mean_s=time.mean,
        step_time_std_s=time.std,
        step_time_median_s=time.median,
        step_time_min_s=time.min,
        step_time_max_s=time.max,
        **_spread(inside, intervals),
        tokens_per_s=figures.tokens_per_s,
        mfu=figures.mfu.value,
        measures=figures.measures,
        stability=figures.stability,
    )
    return full


def _plain_row(
    log: LogFile, format_: LogFormat | None, read: Log, intervals: bool, declared: Sequence[Measure],
    policy: str | None,
) -> Row:  # fmt: skip
    window, measured = choose(read.steps, _policy(log, format_, policy))
    times = [step.time_s for step in measured if step.time_s is not None]
    row: Row = _row(log, format_, read, window, len(measured), _printed_tflops(measured))
    full: Row = row.replace(
        **{f"step_time_{name}_s": value for name, value in stats.summary(times).items()},
        **_spread(times, intervals),
        tokens_per_s=_tokens_per_s(measured),
        measures=summarize(declared, measured),
        stability=stability.of_window(window.policy or "", read.steps, measured),
    )
    return full


def _policy(log: LogFile, format_: LogFormat | None, asked: str | None) -> str:
    """The window that was asked for, else that of the log's recipe."""
    return asked or (format_.window(log.experiment) if format_ else "auto")


def _spread(times: Sequence[float], interval: bool) -> dict[str, Any]:
    """Coefficient of variation and, if `interval`, the confidence interval of the step time."""
    found: dict[str, Any] = {"step_time_cv": stats.coefficient_of_variation(times)}
    if interval and len(times) > 1 and min(times) > 0 and max(times) < MAX_STEP_TIME_S:
        known = over_steps(times)
        found["step_time_interval_s"] = (known.low, known.high) if known else None
    return found


def _tokens_per_s(measured: Sequence[Step]) -> float | None:
    """Tokens per second of all GPUs, from the log's token counts and times; None unless every step has both."""
    tokens = [step.tokens for step in measured if step.tokens is not None]
    seconds = [step.time_s for step in measured if step.time_s is not None]
    if not measured or len(tokens) < len(measured) or len(seconds) < len(measured) or sum(seconds) <= 0:
        return None
    return sum(tokens) / sum(seconds)


def _printed_tflops(measured: Sequence[Step]) -> Tflops:
    """TFLOP/s as the log prints it; empty if the log rounds it too coarsely."""
    printed = [step.tflops_per_gpu for step in measured if step.tflops_per_gpu is not None]
    mean = stats.mean(printed)
    coarse = max((step.tflops_resolution or 0.0 for step in measured), default=0.0)
    if mean is None or coarse > ROUNDED * mean:
        return Tflops()
    return Tflops(mean=mean, std=stats.sample_std(printed), source="log")


def _row(log: LogFile, format_: LogFormat | None, read: Log, window: Window, measured: int, tflops: Tflops) -> Row:
    status = _status(read.steps, measured)
    return Row(
        path=log.path,
        experiment=log.experiment,
        format=format_.name if format_ else None,
        status=status,
        window=f"{window.first}-{window.last}" if window.first is not None else None,
        window_policy=window.policy,
        window_reason=window.reason,
        steps_measured=measured,
        steps_seen=len(read.steps),
        tflops_per_gpu_mean=tflops.mean,
        tflops_per_gpu_std=tflops.std,
        tflops_source=tflops.source,
        attempts=read.attempts,
        cause=_cause(read.events) if status != SUCCESS else None,
        unit=format_.unit if format_ else "s",
    )


def _status(steps: Sequence[Step], measured: int) -> str:
    if measured:
        return SUCCESS
    if steps and all(step.time_s is None for step in steps):
        return f"Failed (none of {len(steps)} iterations has a time)"
    return f"Failed ({len(steps)} iterations)"


def _cause(events: Sequence[Event]) -> str | None:
    fatal = [event for event in events if event.fatal]
    kinds = {kind: place for place, kind in enumerate(PRIORITY)}
    best = min(fatal, key=lambda event: kinds.get(event.kind, len(kinds)), default=None)
    return best.text if best is not None else None
