"""One run from its specification to its result: validate, prepare, render, start, follow, finalise.

Each stage is a function of frozen values; the rooms it goes through (framework, profilers, runtime, launcher) are the
plugins'. Nothing here knows any of them by name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..config.install import Install
from ..errors import InfraError, LlmbxError, UsageError, one_line
from ..files import write_atomic
from ..launchers.base import Launcher, Unreachable, placed
from ..launchers.script import SCRIPT
from ..model import Event, Finding, Image, ImageRequest, Job, JobStatus, Launch, Result, RunSpec, Wrapping
from ..plugins.isolation import ESCAPES
from ..plugins.manager import Framework, Plugins
from ..record.folder import Record, Run, claim_folder, new_record, read_result, read_run, write_record
from ..resolve.rules import common_findings
from ..runtimes.base import Progress, Runtime
from ..secrets import forget
from .collect import RESTARTED
from .finalize import Ended, assess, conclude, retry_cause, write
from .follow import Sink, follow
from .hub import cache_variables, require_access
from .recovery import recover


@dataclasses.dataclass(frozen=True)
class Rooms:
    """The plugins that one run goes through."""

    plugins: Plugins
    framework: Framework
    runtime: Runtime
    launcher: Launcher
    install: Install


@dataclasses.dataclass(frozen=True)
class Rendered:
    """A run that is ready to start: the launch, how each phase is wrapped, and the script that starts it."""

    launch: Launch
    wrappings: tuple[Wrapping, ...]
    script: str


def enter(spec: RunSpec, plugins: Plugins, install: Install, preview: bool = False) -> tuple[RunSpec, Rooms]:
    """The rooms of this run; `auto` in the spec is replaced by what was chosen, with the reason as its origin.

    A `preview` needs no runtime that works on this machine.
    """
    from ..runtimes.select import choose_runtime

    framework = plugins.framework(spec.plugin)
    request = framework.prepare_image(spec)
    launcher = placed(plugins.launcher(spec.launcher), spec)
    name, reason = choose_runtime(spec, request, launcher, plugins.runtimes(), preview)
    if spec.preflight:
        spec = spec.replace(preflight=spec.preflight.replace(repositories=request.repositories))
    origin = spec.origins.get("runtime", "") if spec.runtime == name else reason
    spec = spec.replace(runtime=name, origins={**spec.origins, "runtime": origin})
    return spec, Rooms(plugins, framework, plugins.runtime(name), launcher, install)


def rooms_of(run: Run, plugins: Plugins, install: Install) -> Rooms:
    """The rooms of a run that was started already: nothing is chosen anew."""
    spec = run.record.spec
    launcher = plugins.launcher(spec.launcher)
    return Rooms(plugins, plugins.framework(spec.plugin), plugins.runtime(spec.runtime), launcher, install)


def findings(spec: RunSpec, framework: Framework) -> list[Finding]:
    """Every rule that the spec breaks: those that always hold, the framework's, then the profilers'."""
    return [*common_findings(spec), *framework.check_spec(spec), *framework.check_profilers(spec)]


def admit(spec: RunSpec, found: list[Finding], force: bool) -> RunSpec:
    """The spec, if its findings allow it to run; `force` overrides them and is recorded. Raises `UsageError`."""
    errors = [finding for finding in found if not finding.warning]
    if not errors:
        return spec
    if force:
        return spec.replace(forced=tuple(dict.fromkeys(finding.rule for finding in errors)))
    lines = [f"  {finding.problem}; {finding.fix}" for finding in errors]
    count = "1 problem" if len(errors) == 1 else f"{len(errors)} problems"
    raise UsageError(
        "\n".join([f"{spec.workload} {spec.size} cannot run as asked ({count}; --force overrides):", *lines])
    )


def render(spec: RunSpec, rooms: Rooms, image: Image, folder: Path) -> Rendered:
    """The launch with its profilers, wrapped by the runtime, as the launcher's script. Pure."""
    launch = rooms.framework.build_command(spec, image)
    for profiler in wrappers(spec, launch, rooms.plugins):
        launch = rooms.plugins.ask(profiler, "wrap_command", spec=spec, launch=launch) or launch
    wrappings = tuple(rooms.runtime.wrap(spec, launch, phase, image, folder) for phase in launch.phases)
    return Rendered(launch, wrappings, rooms.launcher.render(spec, launch, wrappings, folder))


def wrappers(spec: RunSpec, launch: Launch, plugins: Plugins) -> tuple[str, ...]:
    """The profilers that wrap a launch, in order: those of the run, then those that its phases need for themselves."""
    needed = [phase.capture.tool for phase in launch.phases if phase.capture]
    own = [tool for tool in dict.fromkeys(needed) if tool not in spec.profilers and tool in plugins.profilers()]
    return (*spec.profilers, *own)


def plan(spec: RunSpec, rooms: Rooms) -> tuple[Image, Path, Rendered]:
    """What a run would start, without fetching or writing anything (`--dry-run`)."""
    image = rooms.runtime.plan(rooms.framework.prepare_image(spec), rooms.install.path)
    spec = _with_cache(spec, rooms)
    name = spec.experiment
    folder = rooms.install.experiments(spec.folder) / name / f"{name}_TIMESTAMP" / name
    return image, folder, render(spec, rooms, image, folder)


def start(
    spec: RunSpec, rooms: Rooms, progress: Progress, *, command: tuple[str, ...] = (), offline: bool = False,
    group: str | None = None, repeats: str | None = None,
) -> Run:  # fmt: skip
    """Make the run's folder, prepare the image, write everything and start the job.

    A run that cannot be prepared or is interrupted meanwhile keeps its folder with a truthful result.
    """
    run_id, folder = claim_folder(rooms.install, spec)
    record = new_record(run_id, spec, command=command, group=group, repeats=repeats)
    write_record(folder, record)
    try:
        return _start(rooms, record, folder, progress, offline)
    except BaseException as error:
        conclude_unstarted(Run(folder=str(folder), record=record), rooms.plugins, error)
        raise


def conclude_unstarted(run: Run, plugins: Plugins, error: BaseException) -> Result:
    """Write the result of a run whose start ended with this error; a job that it has all the same is stopped."""
    status = _not_started(error)
    refused = isinstance(error, InfraError | UsageError) and not isinstance(error, Unreachable)
    if run.record.job is None and not refused and (run.path / SCRIPT).is_file():
        try:
            (run,) = recover([run], plugins.launcher(run.record.spec.launcher))
            if run.record.job is not None:
                plugins.launcher(run.record.spec.launcher).cancel(run.record.job, run.path)
        except LlmbxError as doubt:
            status = status.replace(reason=f"{status.reason}; whether it left a job is not known: {one_line(doubt)}")
    return conclude(run, plugins, status)


def _with_cache(spec: RunSpec, rooms: Rooms, offline: bool = False) -> RunSpec:
    """The spec with the model hub's cache in its environment, so that containers see it."""
    found: RunSpec = spec.replace(env={**cache_variables(rooms.install.path, os.environ, offline), **spec.env})
    return found


def _start(rooms: Rooms, record: Record, folder: Path, progress: Progress, offline: bool) -> Run:
    spec, began = _with_cache(record.spec, rooms, offline), time.monotonic()
    rooms.framework.parse_log(spec)  # a log that nobody can read is found out before hours of training
    image = fetch_image(wanted_image(spec, rooms), rooms, progress, offline)
    rendered = render(spec, rooms, image, folder)
    write_files(folder, rendered)
    record = record.replace(
        commands={phase.role: phase.argv for phase in rendered.launch.phases},
        image=image,
        versions=image.versions,
        prepare_s=round(time.monotonic() - began, 3),
    )
    write_record(folder, record)
    if spec.profile and not spec.profile.keep_secrets:
        # Fetching the image was the last that may have needed one.
        forget(os.environ)
    job = rooms.launcher.submit(folder / SCRIPT, spec, folder)
    record = record.replace(job=job)
    try:
        write_record(folder, record)
    except BaseException:  # nobody would know of it
        rooms.launcher.cancel(job, folder)
        raise
    return Run(folder=str(folder), record=record)


def wanted_image(spec: RunSpec, rooms: Rooms) -> ImageRequest:
    """What the run needs around its program: the framework's request, with what the user admits."""
    asked: ImageRequest = rooms.framework.prepare_image(spec).replace(accept_change=spec.accept_image_change)
    return asked


def fetch_image(request: ImageRequest, rooms: Rooms, progress: Progress, offline: bool = False) -> Image:
    """The image that a run starts in: access proved, fetched, verified, and seen to have what starts programs.

    Raises `InfraError` when it cannot be had, `UsageError` when there is none or no run can start in it.
    """
    if not offline:
        require_access(request.repositories, os.environ)
    image = rooms.runtime.prepare(request, rooms.install.path, progress, offline)
    return seen_inside(image, rooms.runtime, rooms.install)


def seen_inside(image: Image, runtime: Runtime, install: Install) -> Image:
    """The image with what its first start tells, where the runtime can start one by itself. Raises `UsageError`."""
    look = getattr(runtime, "look_inside", None)
    return look(image, install.path) if look else image


def write_files(folder: Path, rendered: Rendered) -> None:
    """Write the launch's files and the script into the run folder; a machine that dies now has not started the run."""
    for name, content in rendered.launch.files.items():
        write_atomic(folder / name, content, durable=False)
    write_atomic(folder / SCRIPT, rendered.script, mode=0o755, durable=False)


def _not_started(error: BaseException) -> JobStatus:
    if isinstance(error, KeyboardInterrupt):
        return JobStatus(state="ended", exit_code=130, verdict="cancelled", reason="interrupted before the start")
    code = error.exit_code if isinstance(error, LlmbxError) else 1
    return JobStatus(state="ended", exit_code=code, verdict="not_started", reason=one_line(error))


def attend(run: Run, rooms: Rooms, sink: Sink) -> Result:
    """Follow a started run to its end and finalise it. Ctrl-C cancels a run that lives with its user.

    A run with attempts left that failed for the infrastructure's sake is tried again; its result is the last attempt's.
    """
    while True:
        after = close(
            run, rooms, _followed(run, rooms, sink), lambda text: sink.event(Event(kind=RESTARTED, text=text))
        )
        if isinstance(after, Result):
            return after
        run = after


def close(run: Run, rooms: Rooms, status: JobStatus, say: Callable[[str], None]) -> Result | Run:
    """Write the result of a run that has ended; or start its next attempt, `say` so, and return the run with it."""
    from .retry import again

    ended = assess(run, rooms.plugins, status)
    known = read_result(run.path)
    cause = None if known else retry_cause(ended, rooms.plugins)
    if cause is None:
        return known or write(ended)
    try:
        after = again(ended, rooms, cause)
    except BaseException as error:
        conclude_unstarted(read_run(run.path), rooms.plugins, error)
        raise
    say(_announced(ended, after, cause))
    return after


def _announced(ended: Ended, run: Run, cause: str) -> str:
    record = run.record
    left_out = record.spec.plugin_settings != ended.run.record.spec.plugin_settings
    without = f" without {ended.status.node}" if left_out else ""
    return f"attempt {record.attempt - 1} failed: {cause}; attempt {record.attempt} of {record.spec.retries}{without}"


def _followed(run: Run, rooms: Rooms, sink: Sink) -> JobStatus:
    limit = run.record.spec.walltime_minutes
    parser = functools.partial(rooms.framework.parse_log, run.record.spec)
    deadline_s = limit * 60 if limit and rooms.launcher.attended else None
    try:
        return follow(run, rooms.launcher, parser, sink, deadline_s=deadline_s)
    except KeyboardInterrupt:
        if not rooms.launcher.attended or run.record.job is None:
            raise
        rooms.launcher.cancel(run.record.job, run.path)
        return _cancelled(rooms.launcher.status(run.record.job, run.path))
    except ESCAPES as error:
        if rooms.launcher.attended and run.record.job is not None:
            _break_off(run, run.record.job, rooms, error)
        raise


def _break_off(run: Run, job: Job, rooms: Rooms, error: BaseException) -> None:
    """Stop a run that cannot be followed, a wrong grammar say: nobody would hold it to its time. Its result says so.

    One that cannot be stopped gets no result while it goes on.
    """
    status = JobStatus(state="ended")
    try:
        rooms.launcher.cancel(job, run.path)
    except LlmbxError:
        return
    with contextlib.suppress(LlmbxError):
        status = rooms.launcher.status(job, run.path)
    reason = f"llmbx could not follow it to its end: {one_line(error)}"
    conclude(run, rooms.plugins, status.replace(state="ended", verdict="broken_off", reason=reason))


def _cancelled(status: JobStatus) -> JobStatus:
    if status.state == "ended" and status.exit_code == 0:
        return status
    return status.replace(state="ended", exit_code=130, verdict="cancelled", reason="interrupted by Ctrl-C")


def exit_code(result: Result) -> int:
    """The process's exit code for a result, as documented: 0, 1, 4 or 130 (slower than allowed is the caller's 3)."""
    codes: Mapping[str, int] = {"completed": 0, "node_fail": 4, "preempted": 4, "lost": 4}
    if result.status == "cancelled" and result.exit_code == 130:
        return 130
    if result.status == "failed" and result.exit_code == 4:
        return 4
    return codes.get(result.status, 1)
