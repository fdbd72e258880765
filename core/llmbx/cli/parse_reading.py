"""Read the logs for `llmbx parse`, each with its format or by the plugin of the run of llmbx that wrote it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InfraError, LlmbxError
from ..logs.find import LogFile, sniff
from ..logs.parser import LogFormat, LogParser
from ..logs.plain import PlainParser
from ..logs.unread import why
from ..measure.figures import measure
from ..measure.interval import log_interval
from ..model import Figures, Result, Step
from ..model.evidence import OWN_CHECK
from ..model.result import CheckOutcome
from ..record.folder import RESULT, STEPS, Run, read_result, read_run, read_steps
from ..run import remeasure
from ..run.checks import run_checks
from ..run.collect import collect_file, collect_run, collect_source
from ..run.collector import Log
from ..run.configuration import stated
from ..run.evidence import gather
from ..run.refresh import current_status
from ..run.verdict import reached_end

if TYPE_CHECKING:
    from ..plugins.manager import Plugins


@dataclasses.dataclass(frozen=True)
class Reading:
    """A log that was read, and the steps to be measured: those stored in the folder of its run, else those of the log.

    `run` is the run of llmbx that wrote it, if any, `result` that run's.
    """

    file: LogFile
    formats: Sequence[LogFormat]
    format: LogFormat | None
    parser: LogParser | None
    log: Log
    steps: Sequence[Step]
    run: Run | None
    result: Result | None
    plugins: Plugins

    def figures(self, window: str | None) -> Figures:
        """What was measured over a window; None: that of the run or of the log's recipe."""
        if self.run is not None:
            return remeasure.figures(self.run, self.result, self.steps, self.plugins, window)
        recipe = self.format.window(self.file.experiment) if self.format else "auto"
        if log_interval([step.number for step in self.steps]) > 1:  # a recipe's window is that of a log of every step
            recipe = "auto"
        declared = self.parser.measures if self.parser else ()
        return measure(None, self.steps, policy=window or recipe, declared=declared, judge=self.plugins.judge)

    def checks(self, figures: Figures) -> tuple[CheckOutcome, ...]:
        """The outcomes of the checks; if the log is gone, only the result says what they found."""
        run, result, plugins = self.run, self.result, self.plugins
        if self.parser is None:
            return result.checks if result else ()
        number = self.parser.first_step
        steps = self.log.steps or self.steps
        well = self.ends_with_last_step
        if run is not None:
            well = result is not None and result.exit_code == 0 and reached_end(run.record.spec, steps, number)
        lasted = result.timing.total_s if result is not None else None
        facts = stated(run, plugins) if run is not None else {}
        evidence = gather(
            run,
            self.log,
            self.parser.prints,
            figures,
            steps=steps,
            first=number,
            ended_well=well,
            configured=facts,
            lasted_s=lasted,
        )
        outcomes = run_checks(evidence, plugins.checks(None))
        if run is None or result is None:
            return outcomes
        common = (outcome for outcome in outcomes if OWN_CHECK not in outcome.check)
        plugins_own = (outcome for outcome in result.checks if OWN_CHECK in outcome.check)  # as the run recorded it
        return (*common, *plugins_own)

    @property
    def ends_with_last_step(self) -> bool:
        """Whether the log has the last step that it announces."""
        last = self.log.steps[-1] if self.log.steps else None
        return last is not None and last.total is not None and last.number >= last.total

    @property
    def end(self) -> str | None:
        """The last step of a log without a run that ends before the step that it announces, or that announces none.

        Such a log is the only witness of its end.
        """
        if self.run is not None or not self.log.steps or self.ends_with_last_step:
            return None
        last = self.log.steps[-1]
        return f"step {last.number}" + (f" of {last.total}" if last.total is not None else "")

    @property
    def is_running(self) -> bool:
        """Whether the run that writes the log has not ended."""
        if self.run is None or self.result is not None:
            return False
        return current_status(self.run, self.plugins)[0] in ("pending", "running")

    @property
    def is_wrong_format(self) -> bool:
        """Whether another format recognizes the log than the one that was chosen for it."""
        if self.file.format is None or self.file.kind is not None or not self.file.file.is_file():
            return False
        recognized = sniff(self.file.file, self.formats)
        return recognized is not None and self.format is not None and recognized.name != self.format.name

    @property
    def unread(self) -> str | None:
        """The reason why no step could be read from the file."""
        if self.file.kind is not None:
            return next(iter(self.log.notes), None)
        return why(self.file.file, self.format, self.formats)


def read(file: LogFile, formats: Sequence[LogFormat], plugins: Plugins) -> Reading | None:
    """Read a log. None if the file is skipped."""
    path, run = file.file, _run(file)
    try:
        exists = path.exists()
        format_ = _format(file, formats) if exists else None
        run_parser = _own_parser(run, plugins) if exists else None
        parser = run_parser or (format_.parser() if format_ else None)
        log = _collect(parser or PlainParser(), file, run) if exists else Log()
    except OSError as error:
        raise InfraError(f"{path}: cannot be read: {error.strerror}") from None
    if format_ is None and file.run_dir is None and not file.named and not path.name.startswith("log"):
        return None
    result = _result(run)
    stored, fault = _stored_steps(run, result)
    steps = log.steps if fault and log.steps else stored or log.steps
    log = log.replace(notes=(*log.notes, fault)) if fault else log
    return Reading(file, formats, format_, parser, log, steps, run, result, plugins)


def _format(log: LogFile, formats: Sequence[LogFormat]) -> LogFormat | None:
    """The format that was chosen for the file, else the one that recognizes it."""
    if log.format is None:
        return sniff(log.file, formats)
    return next((format_ for format_ in formats if format_.name == log.format), None)


def _own_parser(run: Run | None, plugins: Plugins) -> LogParser | None:
    """The parser for this run, which knows its specification; None if its plugin is missing."""
    if run is None or run.record.spec.plugin not in plugins.frameworks():
        return None
    return plugins.framework(run.record.spec.plugin).parse_log(run.record.spec)


def _collect(parser: LogParser, log: LogFile, run: Run | None) -> Log:
    """The steps and events of a log, of a run with its other files, or of one such file."""
    if log.kind is not None:
        return collect_source(parser, log.file, log.kind)
    return collect_run(parser, run) if run is not None else collect_file(parser, log.file)


def _run(log: LogFile) -> Run | None:
    """The run that the log belongs to; None for other logs and if the record cannot be read."""
    try:
        return read_run(Path(log.run_dir)) if log.run_dir is not None else None
    except LlmbxError:
        return None


def _result(run: Run | None) -> Result | None:
    try:
        return read_result(run.path) if run is not None else None
    except LlmbxError:
        return None


def _stored_steps(run: Run | None, result: Result | None) -> tuple[list[Step], str | None]:
    """The steps stored in the folder of a finished run, none if it is not finished; and what is wrong with them."""
    if run is None or not run.files.file(RESULT).exists():
        return [], None
    try:
        steps = read_steps(run.path)
    except LlmbxError as error:
        return [], f"{error}; the log is measured"
    seen = result.steps_seen if result is not None else 0
    short = f"{STEPS} has {len(steps)} of {seen} steps; the log is measured, if it is there"
    return steps, short if len(steps) < seen else None
