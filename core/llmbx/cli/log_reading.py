"""Read a training log once, and measure and check it over any window."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InfraError, LlmbxError
from ..logs.origin import last_words
from ..logs.plain import PlainParser
from ..measure.figures import measure, on_machine
from ..measure.window import log_interval
from ..model import Failure, Figures, Peak, Result, Step
from ..model.evidence import OWN_CHECK
from ..model.failure import NOT_STARTED, Echo
from ..model.result import CheckOutcome
from ..plugins.log_parser import CheckedParser, as_checked
from ..record.folder import RESULT, STEPS, Run, read_result, read_run, read_steps
from ..run import remeasure
from ..run.assess import gather
from ..run.checks import run_checks
from ..run.collect import Log, collect_file, collect_run, collect_source
from ..run.configuration import stated
from ..run.remeasure import current_status
from ..run.verdict import LOST, reached_end
from ..run_files import RunFile

if TYPE_CHECKING:
    from ..logs.parser import LogFormat
    from ..plugins.manager import Plugins


@dataclasses.dataclass(frozen=True)
class LogReading:
    """A log that was read, and the run of llmbx that wrote it, if any.

    `log` has what the file says. `steps` are those to measure: those stored in the run's folder,
    else those of the log. `run` and `result` are those of the run that wrote it.
    """

    file: Path | RunFile
    log: Log
    steps: Sequence[Step]
    run: Run | None
    result: Result | None
    parser: CheckedParser | None
    plugins: Plugins

    @staticmethod
    def read(
        file: Path | RunFile,
        plugins: Plugins,
        format_: LogFormat | None = None,
        kind: str | None = None,
        run_dir: str | None = None,
    ) -> LogReading:
        """Read a log by the plugin of the run in `run_dir`, else with a format.

        Without either, only the failures are read.
        `kind` is that of a file of records. A file that does not exist is an empty log. Raises
        `InfraError` if the file cannot be read.
        """
        run = _run(run_dir)
        parser, log = None, Log()
        try:
            if file.exists():
                parser = _parser(run, format_, plugins)
                log = _collect(parser or as_checked(PlainParser()), file, kind, run)
        except OSError as error:
            raise InfraError(f"{file}: cannot be read: {error.strerror}") from None
        result = _result(run)
        stored, fault = _stored_steps(run, result)
        if fault:
            log = log.replace(notes=(*log.notes, fault))
        steps = log.steps if fault and log.steps else stored or log.steps
        return LogReading(file, log, steps, run, result, parser, plugins)

    def measure(
        self,
        window: str | None,
        recipe: str = "auto",
        *,
        checked: bool = True,
        gpus: int | None = None,
        peak: Peak | None = None,
    ) -> Result:
        """Measure the steps over a window, with the outcomes of the checks.

        The window None is that of the run, else `recipe`.
        The result is that of a completed training: what ended it is `failure`, and whether it
        counts is for the caller to say. `gpus` and `peak` are those of the machine of a log without
        a run.
        """
        figures = self._figures(window, recipe)
        if self.run is None:
            figures = on_machine(figures, gpus, peak)
        members = {name: getattr(figures, name) for name in figures.__struct_fields__}
        return Result(
            run_id=self.run.record.run_id if self.run else "",
            status="completed",
            data_valid=figures.steps_measured > 0,
            checks=self._checks(figures) if checked else (),
            **members,
        )

    def save(self, window: str) -> Path:
        """Store the measurement over another window as the result of the run; return its file.

        Raises `UsageError` if nothing is measured there, or for the run of another user.
        """
        assert self.run is not None and self.result is not None
        remeasure.save_window(self.run, self.result, self.plugins, window)
        return self.run.path / RESULT

    @property
    def ends_with_last_step(self) -> bool:
        """Whether the log has the last step that it announces."""
        last = self.log.steps[-1] if self.log.steps else None
        return last is not None and last.total is not None and last.number >= last.total

    @property
    def is_running(self) -> bool:
        """Whether the run that writes the log has not ended."""
        if self.run is None or self.result is not None:
            return False
        return current_status(self.run, self.plugins)[0] in ("pending", "running")

    @property
    def failure(self) -> Failure | None:
        """The first failure that the log tells of; of a run of llmbx, that of its result, if any.

        What ended such a run may be in no log: a time limit, a lost node.
        """
        result, failure = self.result, self.log.failure_of_failed
        if result is None:
            return self.log.failure if self.ends_with_last_step else failure
        if result.cause is None:
            return None
        if failure is not None and failure.cause[:200] in result.cause:
            named: Failure = failure.replace(
                rank=result.cause_rank,
                ranks=result.cause_ranks,
                node=result.cause_node,
                doubt=result.doubt,
            )
            return named
        return Failure(
            cause=result.cause,
            kind=NOT_STARTED if self._never_started else result.status,
            rank=result.cause_rank,
            ranks=result.cause_ranks,
            node=result.cause_node,
            doubt=result.doubt,
            infrastructure=True if result.status in LOST or _of_one_node(result) else None,
            echoes=_as_echoes(failure),
        )

    @property
    def _never_started(self) -> bool:
        return self.run is not None and self.run.record.job is None and not self.steps

    def lines(self) -> list[str]:
        """Return the lines of the log as they are; none if there is no log. Raises `OSError`."""
        if isinstance(self.file, RunFile) and not self.file.exists():
            return []
        with self.file.open("rb") as file:
            return file.read().decode("utf-8", "replace").split("\n")

    def last_words(self, rank: int) -> str | None:
        """Return the last line that a rank printed; None without labels of ranks."""
        return last_words(self.lines(), rank)

    def _figures(self, window: str | None, recipe: str) -> Figures:
        if self.run is not None:
            return remeasure.figures(self.run, self.result, self.steps, self.plugins, window)
        if log_interval([step.number for step in self.steps]) > 1:
            recipe = "auto"  # a recipe's window is that of a log of every step
        declared = self.parser.measures if self.parser else ()
        judge = self.plugins.judge
        return measure(None, self.steps, policy=window or recipe, declared=declared, judge=judge)

    def _checks(self, figures: Figures) -> tuple[CheckOutcome, ...]:
        """The outcomes of the checks; if the log is gone, only the result says what they found."""
        run, result = self.run, self.result
        if self.parser is None:
            return result.checks if result else ()
        evidence = gather(
            run,
            self.log,
            self.parser.prints,
            figures,
            steps=self.log.steps or self.steps,
            first=self.parser.first_step,
            ended_well=self._ended_well(self.parser.first_step),
            configured=stated(run, self.plugins) if run is not None else {},
            lasted_s=result.timing.total_s if result is not None else None,
        )
        outcomes = run_checks(evidence, self.plugins.checks(None))
        if run is None or result is None:
            return outcomes
        common = (outcome for outcome in outcomes if OWN_CHECK not in outcome.check)
        # Those of plugins are as the run recorded them.
        of_plugins = (outcome for outcome in result.checks if OWN_CHECK in outcome.check)
        return (*common, *of_plugins)

    def _ended_well(self, first: int | None) -> bool:
        if self.run is None:
            return self.ends_with_last_step
        if self.result is None or self.result.exit_code != 0:
            return False
        return reached_end(self.run.record.spec, self.log.steps or self.steps, first)


def _run(folder: str | None) -> Run | None:
    """The run in a folder; None without one, and if the record cannot be read."""
    try:
        return read_run(Path(folder)) if folder is not None else None
    except LlmbxError:
        return None


def _parser(run: Run | None, format_: LogFormat | None, plugins: Plugins) -> CheckedParser | None:
    """The parser that knows the run's specification; if its plugin is missing, the format's."""
    if run is not None and run.record.spec.plugin in plugins.frameworks():
        return plugins.framework(run.record.spec.plugin).parse_log(run.record.spec)
    return as_checked(format_.parser()) if format_ else None


def _collect(parser: CheckedParser, file: Path | RunFile, kind: str | None, run: Run | None) -> Log:
    """The steps and events of a log, of a run with its other files, or of one such file."""
    if kind is not None:
        return collect_source(parser, file, kind)
    return collect_run(parser, run) if run is not None else collect_file(parser, file)


def _result(run: Run | None) -> Result | None:
    try:
        return read_result(run.path) if run is not None else None
    except LlmbxError:
        return None


def _stored_steps(run: Run | None, result: Result | None) -> tuple[list[Step], str | None]:
    """The steps stored in the folder of a finished run, and what is wrong with them."""
    if run is None or not run.files.file(RESULT).exists():
        return [], None
    try:
        steps = read_steps(run.path)
    except LlmbxError as error:
        return [], f"{error}; the log is measured"
    seen = result.steps_seen if result is not None else 0
    short = f"{STEPS} has {len(steps)} of {seen} steps; the log is measured, if it is there"
    return steps, short if len(steps) < seen else None


def _of_one_node(result: Result) -> bool:
    """Whether the job could not start on a node; another one may run it."""
    return result.exit_code == InfraError.exit_code and result.cause_node is not None


def _as_echoes(failure: Failure | None) -> tuple[Echo, ...]:
    """What a log says about a failure that is not in it."""
    if failure is None:
        return ()
    named = {echo.rank for echo in failure.echoes}
    ranks: list[int | None] = [rank for rank in failure.ranks if rank not in named]
    text, time = failure.cause, failure.time
    causes = (Echo(text=text, rank=rank, time=time) for rank in ranks or [failure.rank])
    return (*causes, *failure.echoes)
