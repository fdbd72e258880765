"""Execute one run: prepare, render, start, follow, retry, finalize."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import InfraError, LlmbxError, PluginError, Terminated, UsageError, one_line
from ..launchers.base import Unreachable
from ..launchers.script import SCRIPT
from ..logs.restarts import RESTARTED
from ..model import Event, Expected, Image, ImageRequest, Job, JobStatus, Result, RunSpec
from ..plugins.calls import PLUGIN_EXCEPTIONS
from ..plugins.manager import Plugins
from ..record.folder import PairMark, Record, Run, claim_folder, new_record, read_run, write_record
from ..runtimes.base import Progress
from ..secrets import forget
from .assess import Ended, assess
from .context import RunContext
from .context import wanted_image as wanted_image
from .finalize import conclude, retry_cause, write
from .follow import Sink, follow
from .hub import require_access
from .launch import render, with_cache, write_files
from .own_result import own_result
from .recovery import recover
from .retry import start_next_attempt
from .waiting import give_up as give_up

INTERRUPTED = 130
"""Exit code of an interrupted command: 128 plus the number of SIGINT, as shells have it."""


def start(
    spec: RunSpec, context: RunContext, progress: Progress, *, command: tuple[str, ...] = (), offline: bool = False,
    group: str | None = None, repeats: str | None = None, pair: PairMark | None = None, detach: bool = False,
    expected: Expected | None = None,
) -> Run:  # fmt: skip
    """Create the run's folder, prepare the image, write all files and start the job.

    With `detach` the job continues when this process ends. If the preparation fails or is interrupted, the folder is
    kept with a result that states the error.
    """
    run_id, short_id, folder = claim_folder(context.install, spec)
    declared = tuple(prefix for kind in context.plugins.settings.values() for prefix in kind.variable_prefixes)
    record = new_record(
        run_id, spec, declared, id=short_id, command=command, group=group, repeats=repeats, pair=pair,
        expected=expected or Expected(),
    )  # fmt: skip
    write_record(folder, record)
    try:
        run = _start(context, record, folder, progress, offline)
        if detach and run.record.job:
            context.launcher.release(run.record.job, folder)
        return run
    except BaseException as error:
        conclude_unstarted(Run(folder=str(folder), record=record), context.plugins, error)
        raise


def conclude_unstarted(run: Run, plugins: Plugins, error: BaseException) -> Result:
    """Write the result of a run whose start failed with `error`; if a job was started all the same, cancel it."""
    status = _not_started(error)
    refused = isinstance(error, InfraError | UsageError) and not isinstance(error, Unreachable)
    if run.record.job is None and not refused and run.files.file(SCRIPT).is_file():
        try:
            (run,) = recover([run], plugins.launcher(run.record.spec.launcher))
            if run.record.job is not None:
                plugins.launcher(run.record.spec.launcher).cancel(run.record.job, run.path)
        except LlmbxError as failed:
            status = status.replace(reason=f"{status.reason}; a job may still be running: {one_line(failed)}")
    return conclude(run, plugins, status)


def _start(context: RunContext, record: Record, folder: Path, progress: Progress, offline: bool) -> Run:
    spec, began = with_cache(record.spec, context, offline), time.monotonic()
    context.framework.parse_log(spec)  # fail before the start if the parser does not work
    image = fetch_image(wanted_image(spec, context), context, progress, offline)
    rendered = render(spec, context, image, folder)
    write_files(folder, rendered)
    record = record.replace(
        **rendered.recorded,
        image=image,
        versions=image.versions,
        prepare_s=round(time.monotonic() - began, 3),
    )
    write_record(folder, record)
    if spec.profile and not spec.profile.keep_secrets:
        # Fetching the image was the last step that may need a secret.
        forget(os.environ)
    job = context.launcher.submit(folder / SCRIPT, spec, folder)
    record = record.replace(job=job)
    try:
        write_record(folder, record)
    except BaseException:  # the job is not recorded anywhere
        context.launcher.cancel(job, folder)
        raise
    return Run(folder=str(folder), record=record)


def fetch_image(request: ImageRequest, context: RunContext, progress: Progress, offline: bool = False) -> Image:
    """Check access to the image, fetch and verify it, and check that a program can start in it.

    Raises `InfraError` if it cannot be fetched, `UsageError` if it does not exist or no program can start in it.
    """
    if not offline:
        require_access(request.repositories, os.environ)
    image = context.runtime.prepare(request, context.install.path, progress, offline)
    return context.runtime.look_inside(image, context.install.path)


def _not_started(error: BaseException) -> JobStatus:
    if isinstance(error, KeyboardInterrupt):
        by = f" by {error}" if str(error) else ""
        return JobStatus(state="ended", exit_code=130, verdict="cancelled", reason=f"interrupted{by} before the start")
    code = error.exit_code if isinstance(error, LlmbxError) else 1
    return JobStatus(state="ended", exit_code=code, verdict="not_started", reason=one_line(error))


def attend(run: Run, context: RunContext, sink: Sink) -> Result:
    """Follow a started run to its end and finalize it.

    Ctrl-C, SIGTERM and SIGHUP cancel a run whose launcher is attended.

    A run that fails because of the infrastructure is retried while attempts are left; the result is the last attempt's.
    After an interruption nothing is retried. If the run ended for another reason meanwhile, its result is written, and
    the interruption raised: it is meant for the whole command.
    """
    while True:
        status, interruption = _follow(run, context, sink)
        if interruption is not None:
            result = conclude(run, context.plugins, status)
            if exit_code(result) != INTERRUPTED:
                raise interruption
            return result
        after = close(run, context, status, lambda text: sink.event(Event(kind=RESTARTED, text=text)))
        if isinstance(after, Result):
            return after
        run = after


def close(run: Run, context: RunContext, status: JobStatus, report: Callable[[str], None]) -> Result | Run:
    """Write and return the result of an ended run; or start its next attempt, `report` it, and return the run."""
    known = own_result(run)
    ended = assess(run, context.plugins, status)
    cause = retry_cause(ended, context.plugins) if not known else None
    if cause is None:
        return known or write(ended)
    try:
        after = start_next_attempt(ended, context, cause)
    except BaseException as error:
        conclude_unstarted(read_run(run.path), context.plugins, error)
        raise
    report(_retry_message(ended, after, cause))
    return after


def _retry_message(ended: Ended, run: Run, cause: str) -> str:
    record = run.record
    left_out = record.spec.plugin_settings != ended.run.record.spec.plugin_settings
    without = f" without {ended.status.node}" if left_out else ""
    return f"attempt {record.attempt - 1} failed: {cause}; attempt {record.attempt} of {record.spec.retries}{without}"


def _follow(run: Run, context: RunContext, sink: Sink) -> tuple[JobStatus, KeyboardInterrupt | None]:
    """Follow the run to its end; return its final status, and the interruption for which it was stopped."""
    limit = run.record.spec.walltime_minutes
    parser = functools.partial(context.framework.parse_log, run.record.spec)
    deadline_s = limit * 60 if limit and context.launcher.attended else None
    try:
        return follow(run, context.launcher, parser, sink, deadline_s=deadline_s), None
    except KeyboardInterrupt as interruption:
        if not context.launcher.attended or run.record.job is None:
            raise
        context.launcher.cancel(run.record.job, run.path)
        status = JobStatus(state="ended")
        with contextlib.suppress(PluginError):  # its status may be what was interrupted, because it did not return
            status = context.launcher.status(run.record.job, run.path)
        if context.launcher.remote and status.state == "running" and isinstance(interruption, Terminated):
            raise  # the scheduler is ending all of this: it knows why when the run is finalized later
        return cancelled(status, interruption), interruption
    except PLUGIN_EXCEPTIONS as error:
        if context.launcher.attended and run.record.job is not None:
            _break_off(run, run.record.job, context, error)
        raise


def _break_off(run: Run, job: Job, context: RunContext, error: BaseException) -> None:
    """Cancel a run that cannot be followed, for example because its log parser failed, and write its result.

    Without a follower its time limit would not be enforced. If it cannot be cancelled, no result is written while it
    is running.
    """
    status = JobStatus(state="ended")
    try:
        context.launcher.cancel(job, run.path)
    except LlmbxError:
        return
    with contextlib.suppress(LlmbxError):
        status = context.launcher.status(job, run.path)
    reason = f"llmbx could not follow the run: {one_line(error)}"
    conclude(run, context.plugins, status.replace(state="ended", verdict="broken_off", reason=reason))


def cancelled(status: JobStatus, interruption: KeyboardInterrupt) -> JobStatus:
    """Return the final status of a run that was stopped for this interruption, unless it ended for another reason."""
    if status.state == "ended" and (status.exit_code == 0 or status.verdict not in (None, "cancelled")):
        return status
    reason = f"interrupted by {str(interruption) or 'Ctrl-C'}"
    return status.replace(state="ended", exit_code=INTERRUPTED, verdict="cancelled", reason=reason)


def exit_code(result: Result) -> int:
    """Return the documented exit code for a result: 0, 1, 4 or 130. The caller handles 3 (slower) and 5 (unstable)."""
    codes: Mapping[str, int] = {"completed": 0, "node_fail": 4, "preempted": 4, "lost": 4}
    if result.status == "cancelled" and result.exit_code == INTERRUPTED:
        return INTERRUPTED
    if result.status == "failed" and result.exit_code == 4:
        return 4
    return codes.get(result.status, 1)
