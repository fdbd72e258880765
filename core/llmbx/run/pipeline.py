"""Execute runs: prepare, render, start, follow, retry, finalize."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..errors import InfraError, LlmbxError, PluginError, Terminated, Unreachable, UsageError, one_line
from ..logs.restarts import RESTARTED
from ..model import Event, Finding, Image, ImageRequest, Job, JobStatus, Result, RunSpec
from ..model.result import INTERRUPTED, exit_code
from ..model.run_folder import PLANNED, SCRIPT
from ..plugins.calls import PLUGIN_EXCEPTIONS
from ..record.folder import Run, claim_folder, new_record, read_run, write_record
from ..secrets import forget
from .assess import Ended, assess
from .context import RunContext, admit, findings, require_access, site_findings
from .finalize import conclude, recover, retry_cause, write
from .follow import Sink, dump_stacks, follow
from .launch import Rendered, render, with_cache, write_files
from .own_result import own_result
from .retry import may_take_over, start_next_attempt, take_over
from .waiting import give_up

if TYPE_CHECKING:
    from ..config.install import Install
    from ..plugins.manager import Plugins
    from ..runtimes.base import Progress


class Runner(RunContext):
    """Executes the runs of one configuration, from the checks to the result."""

    @classmethod
    def enter_here(cls, spec: RunSpec, plugins: Plugins, install: Install, force: bool) -> tuple[RunSpec, Self]:
        """As `enter`, but errors of the specification are reported before tools that are missing here."""
        try:
            return cls.enter(spec, plugins, install)
        except InfraError:
            problems = findings(spec, plugins.framework(spec.plugin))
            admit(spec, [*problems, *site_findings(spec, install)], force)
            raise

    def findings(self, spec: RunSpec, here: bool = False) -> list[Finding]:
        """Return every rule that the specification breaks; with `here`, what this machine and install lack, too."""
        return [*findings(spec, self.framework), *(site_findings(spec, self.install) if here else [])]

    @staticmethod
    def admit(spec: RunSpec, found: list[Finding], force: bool) -> RunSpec:
        """Return the specification if its findings allow it to run. Raises `UsageError` with all errors otherwise.

        With `force` the specification records the errors instead.
        """
        return admit(spec, found, force)

    def plan(self, spec: RunSpec) -> tuple[Image, Path, Rendered]:
        """Return image, folder and script that a run would have, without fetching or writing anything (`--dry-run`)."""
        image = self.runtime.plan(self.wanted_image(spec), self.install.path)
        spec = with_cache(spec, self)
        name = spec.experiment
        folder = self.install.experiments(spec.folder) / name / f"{name}{PLANNED}" / name
        return image, folder, render(spec, self, image, folder)

    def fetch_image(self, request: ImageRequest, progress: Progress, offline: bool = False) -> Image:
        """Check access to the image, fetch and verify it, and check that a program can start in it.

        Raises `InfraError` if it cannot be fetched, `UsageError` if it does not exist or no program can start in it.
        """
        if not offline:
            require_access(request.repositories, os.environ)
        image = self.runtime.prepare(request, self.install.path, progress, offline)
        return self.runtime.look_inside(image, self.install.path)

    def forget_secrets(self, spec: RunSpec) -> None:
        """Remove the secrets from this process's environment if a profile of the run may not have them.

        It is called after the image was fetched, which is the last step that may need a secret.
        """
        if spec.profile and not spec.profile.keep_secrets:
            forget(os.environ)

    def start(
        self, spec: RunSpec, progress: Progress, *, offline: bool = False, detach: bool = False, **facts: Any
    ) -> Run:
        """Create the run's folder, prepare the image, write all files and start the job. `facts` as in `claim`.

        With `detach` the job continues when this process ends. If the preparation fails or is interrupted, the folder
        is kept with a result that states the error.
        """
        claimed = self.claim(spec, **facts)
        write_record(claimed.path, claimed.record)
        try:
            run = self._start(claimed, progress, offline)
            if detach and run.record.job:
                self.launcher.release(run.record.job, run.path)
            return run
        except BaseException as error:
            self.conclude_unstarted(claimed, error)
            raise

    def _start(self, run: Run, progress: Progress, offline: bool) -> Run:
        spec, began = run.record.spec, time.monotonic()
        self.framework.parse_log(spec)  # fail before the start if the parser does not work
        request = self.wanted_image(with_cache(spec, self, offline))
        image = self.fetch_image(request, progress, offline)
        run = self.write_files(run, image, offline, began=began)
        self.forget_secrets(spec)
        return self.submit(run, offline)

    def claim(
        self, spec: RunSpec, now: Callable[[], float] = time.time, command: tuple[str, ...] = (), **facts: Any
    ) -> Run:
        """Create the folder of a new run; return it with a record that is not written yet.

        `facts` are other members of the record: group, repeats, pair, sweep, expected. The run's id ends with the
        time `now` (epoch seconds), or with a later one if that is taken.
        """
        run_id, short_id, folder = claim_folder(self.install, spec, now)
        declared = tuple(prefix for kind in self.plugins.settings.values() for prefix in kind.variable_prefixes)
        return Run(folder=str(folder), record=new_record(run_id, spec, declared, id=short_id, command=command, **facts))

    def write_files(self, run: Run, image: Image, offline: bool = False, began: float | None = None) -> Run:
        """Write the record of a run with this image, the files of its launch, and its script.

        `began` is when its preparation began, on the clock `time.monotonic`; None: it was prepared for another run.
        """
        rendered = render(with_cache(run.record.spec, self, offline), self, image, run.path)
        write_files(run.path, rendered)
        took = 0.0 if began is None else round(time.monotonic() - began, 3)
        record = run.record.replace(**rendered.recorded, image=image, versions=image.versions, prepare_s=took)
        write_record(run.path, record, durable=began is not None)
        return run.replace(record=record)

    def submit(self, run: Run, offline: bool = False) -> Run:
        """Start the job of a run whose files are written; return the run with its job.

        Raises `Unreachable` if it is unknown whether there is a job, another `LlmbxError` if it was rejected.
        """
        spec = with_cache(run.record.spec, self, offline)
        job = self.launcher.submit(run.path / SCRIPT, spec, run.path)
        record = run.record.replace(job=job)
        try:
            write_record(run.path, record)
        except BaseException:  # the job is not recorded anywhere
            self.launcher.cancel(job, run.path)
            raise
        return run.replace(record=record)

    def attend(self, run: Run, sink: Sink) -> Result:
        """Follow a started run to its end and finalize it.

        Ctrl-C, SIGTERM and SIGHUP cancel a run whose launcher is attended.

        A run that fails because of the infrastructure is retried while attempts are left; the result is the last
        attempt's. After an interruption nothing is retried. If the run ended for another reason meanwhile, its result
        is written, and the interruption raised: it is meant for the whole command.
        """
        while True:
            status, interruption = self._follow(run, sink)
            if interruption is not None:
                result = self.conclude(run, status)
                if exit_code(result) != INTERRUPTED:
                    raise interruption
                return result
            after = self.close(run, status, lambda text: sink.event(Event(kind=RESTARTED, text=text)))
            if isinstance(after, Result):
                return after
            run = after

    def _follow(self, run: Run, sink: Sink) -> tuple[JobStatus, KeyboardInterrupt | None]:
        """Follow the run to its end; return its final status, and the interruption for which it was stopped."""
        limit = run.record.spec.walltime_minutes
        parser = functools.partial(self.framework.parse_log, run.record.spec)
        deadline_s = limit * 60 if limit and self.launcher.attended else None
        try:
            return follow(run, self.launcher, parser, sink, deadline_s=deadline_s), None
        except KeyboardInterrupt as interruption:
            if not self.launcher.attended or run.record.job is None:
                raise
            self.launcher.cancel(run.record.job, run.path)
            status = JobStatus(state="ended")
            with contextlib.suppress(PluginError):  # its status may be what was interrupted, because it did not return
                status = self.launcher.status(run.record.job, run.path)
            if self.launcher.remote and status.state == "running" and isinstance(interruption, Terminated):
                raise  # the scheduler is ending all of this: it knows why when the run is finalized later
            return cancelled(status, interruption), interruption
        except PLUGIN_EXCEPTIONS as error:
            if self.launcher.attended and run.record.job is not None:
                self._break_off(run, run.record.job, error)
            raise

    def _break_off(self, run: Run, job: Job, error: BaseException) -> None:
        """Cancel a run that cannot be followed, for example because its log parser failed, and write its result.

        Without a follower its time limit would not be enforced. If it cannot be cancelled, no result is written while
        it is running.
        """
        status = JobStatus(state="ended")
        try:
            self.launcher.cancel(job, run.path)
        except LlmbxError:
            return
        with contextlib.suppress(LlmbxError):
            status = self.launcher.status(job, run.path)
        reason = f"llmbx could not follow the run: {one_line(error)}"
        self.conclude(run, status.replace(state="ended", verdict="broken_off", reason=reason))

    def close(self, run: Run, status: JobStatus, report: Callable[[str], None]) -> Result | Run:
        """Write and return the result of an ended run; or start its next attempt, `report` it, and return the run."""
        existing = own_result(run)
        ended = assess(run, self.plugins, status)
        cause = retry_cause(ended, self.plugins) if not existing else None
        if cause is None:
            return existing or write(ended)
        try:
            after = start_next_attempt(ended, self, cause, report)
        except BaseException as error:
            report(f"attempt {ended.run.record.attempt} failed: {cause}; the next attempt could not be started")
            self.conclude_unstarted(read_run(run.path), error)
            raise
        report(_retry_message(ended, after, cause))
        return after

    def conclude(self, run: Run, status: JobStatus) -> Result:
        """Write the result of a run that never started, or whose end is known from `status`."""
        return conclude(run, self.plugins, status)

    def conclude_unstarted(self, run: Run, error: BaseException) -> Result:
        """Write the result of a run whose start failed with `error`; if a job was started all the same, cancel it."""
        status = _not_started(error)
        refused = isinstance(error, InfraError | UsageError) and not isinstance(error, Unreachable)
        if run.record.job is None and not refused and run.files.file(SCRIPT).is_file():
            launcher = self.plugins.launcher(run.record.spec.launcher)
            try:
                (run,) = recover([run], launcher)
                if run.record.job is not None:
                    launcher.cancel(run.record.job, run.path)
            except LlmbxError as failed:
                status = status.replace(reason=f"{status.reason}; a job may still be running: {one_line(failed)}")
        return self.conclude(run, status)

    def give_up(self, run: Run, status: JobStatus) -> JobStatus | None:
        """Cancel a pending job if it can never start or has waited for longer than allowed; return its final status.

        None if the job continues to wait or has started.
        """
        return give_up(run, self.launcher, status)

    def dump_stacks(self, run: Run) -> None:
        """Make every rank write its stacks to the log, and wait until they have."""
        dump_stacks(run, self.launcher)

    def recover(self, runs: Sequence[Run]) -> list[Run]:
        """Return the same runs, each with its job if it has one; the others are abandoned. Raises `Unreachable`.

        For runs whose llmbx died, or could not reach the scheduler, while it was starting them.
        """
        return recover(runs, self.launcher)

    def take_over(self, run: Run) -> Run | None:
        """Make this process the owner of a run whose owner is gone; None if it may not retry it."""
        return take_over(run) if may_take_over(run, self.launcher) else None


def _not_started(error: BaseException) -> JobStatus:
    if isinstance(error, KeyboardInterrupt):
        by = f" by {error}" if str(error) else ""
        return JobStatus(state="ended", exit_code=130, verdict="cancelled", reason=f"interrupted{by} before the start")
    code = error.exit_code if isinstance(error, LlmbxError) else 1
    return JobStatus(state="ended", exit_code=code, verdict="not_started", reason=one_line(error))


def _retry_message(ended: Ended, run: Run, cause: str) -> str:
    record = run.record
    left_out = record.spec.plugin_settings != ended.run.record.spec.plugin_settings
    without = f" without {record.attempts[-1].node}" if left_out else ""
    return f"attempt {record.attempt - 1} failed: {cause}; attempt {record.attempt} of {record.spec.retries}{without}"


def cancelled(status: JobStatus, interruption: KeyboardInterrupt) -> JobStatus:
    """Return the final status of a run that was stopped for this interruption, unless it ended for another reason."""
    if status.state == "ended" and (status.exit_code == 0 or status.verdict not in (None, "cancelled")):
        return status
    reason = f"interrupted by {str(interruption) or 'Ctrl-C'}"
    return status.replace(state="ended", exit_code=INTERRUPTED, verdict="cancelled", reason=reason)
