"""Turning a run's files into its result, once: live at the end of a run, or later by any verb that finds one ended."""

from __future__ import annotations

import time
from pathlib import Path

from ..errors import PluginError
from ..files import disk_errors, write_exclusive
from ..launchers.base import Launcher
from ..logs.lines import LineReader, split_label
from ..measure.figures import Figures, measure
from ..model import JobStatus, Result, RunSpec, Value
from ..model.flops import Flops
from ..model.result import ImageFacts, Timing, WorkloadFacts
from ..plugins.manager import Plugins
from ..record import first_step
from ..record.attempts import FOLDER, stored_attempts
from ..record.first_step import elapsed
from ..record.folder import RESULT, Record, Run, pretty, read_result, read_run, write_steps
from ..record.host import alive, is_me
from ..resolve.numbering import first_number
from .artifacts import examine, slow_down
from .collect import Log, collect_file
from .infrastructure import infrastructure_cause, refusals
from .recovery import recover
from .verdict import Verdict, judge

TAIL_BYTES = 1 << 16

OWNER_GRACE_S = 60.0
"""How long after a run's end its owner on another host, of whom nothing can be known, may still try it again."""


def finalise(run: Run, plugins: Plugins) -> Result | None:
    """The run's result: the one on disk, a new one if the run has ended, or None while it goes on.

    Safe to call from several processes at once: the first one to write wins, all return the same result.
    """
    known = read_result(run.path)
    if known is not None:
        return known
    status = job_status(run, plugins)
    if status.state in ("pending", "running"):
        return None
    ended = assess(run if run.record.job else read_run(run.path), plugins, status)
    return None if _left_to_owner(ended, plugins) else write(ended)


def job_status(run: Run, plugins: Plugins) -> JobStatus:
    """How the run's job stands; a run without a job is being prepared, or its llmbx died and left a job or none."""
    record = run.record
    if record.job is not None:
        return plugins.launcher(record.job.launcher).status(record.job, run.path)
    living = alive(record.owner) if record.owner else False
    if living:
        return JobStatus(state="pending", reason="being prepared")
    if living is None and record.owner:
        return JobStatus(state="pending", reason=f"being prepared on {record.owner.host}")
    launcher = plugins.launcher(record.spec.launcher)
    (found,) = recover([run], launcher)
    if found.record.job is not None:
        return launcher.status(found.record.job, run.path)
    return JobStatus(state="lost", reason="llmbx ended before the run was started")


def conclude(run: Run, plugins: Plugins, status: JobStatus) -> Result:
    """Write the result of a run that never started or whose end the caller knows better than the launcher."""
    known = read_result(run.path)
    if known is not None:
        return known
    try:
        return write(assess(run, plugins, status))
    except PluginError:  # its grammar, say, is what ended the run: how it ended is known all the same
        return write(_unread(run, status))


class Ended(Value, frozen=True):
    """A run that has ended, and what is known of its end; nothing of it is written yet."""

    run: Run
    status: JobStatus
    log: Log
    result: Result


def retry_cause(ended: Ended, plugins: Plugins) -> str | None:
    """Why another attempt is due: the infrastructure's failure, with attempts left; None where none is."""
    spec, record = ended.run.record.spec, ended.run.record
    if record.attempt >= spec.retries or record.job is None:
        return None
    return infrastructure_cause(ended.status, ended.result, ended.log, _refusals(ended.run, plugins))


def _refusals(run: Run, plugins: Plugins) -> list[str]:
    """The lines with which the run's container tool said that a rank did not start."""
    runtime = plugins.runtimes().get(run.record.spec.runtime)
    return refusals(getattr(runtime, "start_failure", ""), run.path)


def _left_to_owner(ended: Ended, plugins: Plugins) -> bool:
    """Whether another process that follows the run is about to try it again: then it is not for us to close it."""
    owner = ended.run.record.owner
    if owner is None or is_me(owner) or retry_cause(ended, plugins) is None:
        return False
    living = alive(owner)
    return living is True or (living is None and time.time() - (ended.status.ended or 0.0) < OWNER_GRACE_S)


def launcher_of(run: Run, plugins: Plugins) -> Launcher:
    """The launcher that has the run's job."""
    assert run.record.job is not None
    return plugins.launcher(run.record.job.launcher)


def read_log(run: Run, plugins: Plugins) -> Log:
    """Steps and events of the run's log as its framework's grammar reads them; empty when there is no log."""
    parser = plugins.framework(run.record.spec.plugin).parse_log(run.record.spec)
    return collect_file(parser, run.log)


def last_line(log: Path) -> str | None:
    """The last line of a log that says anything, without its prefix of rank and time."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = LineReader().feed(file.read() + b"\n")
    except OSError:
        return None
    return next((split_label(line)[2].strip() for line in reversed(lines) if line.strip()), None)


def assess(run: Run, plugins: Plugins, status: JobStatus) -> Ended:
    """Measure and judge an ended run, without writing anything."""
    spec = run.record.spec
    log = read_log(run, plugins)
    refusal = next(iter(_refusals(run, plugins) if not log.steps else ()), None)
    flops, faults = formula(spec, plugins)
    first = first_number(spec, plugins)
    verdict = judge(spec, status, log.steps, log.events, last_line(run.log), refusal, first)
    figures = measure(spec, log.steps, flops, first_number=first)
    verdict, notes = examine(spec, run.path, plugins, _measured(verdict, figures, spec))
    notes += slow_down(spec, log.steps, figures.step_time_s.median, first)
    result = build_result(run.record, status, figures).replace(
        status=verdict.status,
        data_valid=verdict.data_valid,
        cause=verdict.cause,
        attempt=max(run.record.attempt, stored_attempts(run.path)),
        warnings=(*figures.warnings, *faults, *notes, *_earlier(run)),
        phase_step_time_s=_phases(run.record, log, figures),
    )
    timing = result.timing.replace(first_step_s=first_step.seconds(run, status.started, status.ended))
    return Ended(run=run, status=status, log=log, result=result.replace(timing=timing))


def _unread(run: Run, status: JobStatus) -> Ended:
    """What is known of an ended run without its plugins: how it ended."""
    spec = run.record.spec
    verdict = judge(spec, status, [], [], last_line(run.log))
    result = build_result(run.record, status, measure(spec, [], None)).replace(
        status=verdict.status,
        cause=verdict.cause,
        attempt=max(run.record.attempt, stored_attempts(run.path)),
        warnings=tuple(_earlier(run)),
    )
    return Ended(run=run, status=status, log=Log(), result=result)


def formula(spec: RunSpec, plugins: Plugins) -> tuple[Flops | None, tuple[str, ...]]:
    """FLOPs of one sample, with a warning where the plugin's formula fails: that must not cost the measurement."""
    try:
        return plugins.framework(spec.plugin).compute_flops(spec), ()
    except PluginError as error:
        return None, (f"no MFU and no recomputed TFLOP/s: {error}",)


def write(ended: Ended) -> Result:
    """Write steps and result; the first of several processes wins, and its result is returned."""
    run = ended.run
    with disk_errors(f"the result of {run.record.run_id}"):
        write_steps(run.path, ended.log.steps)
        won = write_exclusive(run.path / RESULT, pretty(ended.result))
    return ended.result if won else read_result(run.path) or ended.result


def _earlier(run: Run) -> list[str]:
    """A line on each attempt before this one."""
    known = {attempt.number: attempt for attempt in run.record.attempts}
    lines = []
    for number in range(stored_attempts(run.path)):
        attempt = known.get(number)
        why = f"ended with {attempt.status}: {attempt.cause}" if attempt else "was requeued by the scheduler"
        lines.append(f"attempt {number} {why}; what it left is in {FOLDER}/{number}")
    return lines


def _phases(record: Record, log: Log, figures: Figures) -> dict[str, float]:
    """Seconds a step by phase, the measured one last; empty where only one phase trains."""
    found = {
        str(event.facts["role"]): float(event.facts["step_time_s"])
        for event in (*log.earlier, *log.events)
        if event.kind == "phase_time"
    }
    measured = figures.step_time_s.mean
    if found and measured is not None:
        found[[*record.commands][-1]] = measured
    return found


def _measured(verdict: Verdict, figures: Figures, spec: RunSpec) -> Verdict:
    """The verdict, without valid data where no step was measured; unless that was not what the run was for."""
    if not verdict.data_valid or figures.steps_measured or spec.profile or spec.checkpoint.load:
        return verdict
    nothing = f"nothing was measured in the window {figures.window.policy}: {figures.window.reason}"
    silent: Verdict = verdict.replace(data_valid=False, cause=verdict.cause or nothing)
    return silent


def build_result(record: Record, status: JobStatus, figures: Figures) -> Result:
    """The result of a run, its verdict still open (`failed`)."""
    spec = record.spec
    reasons = not_comparable(spec, record)
    total = elapsed(status.started, status.ended)
    return Result(
        run_id=record.run_id,
        status="failed",
        data_valid=False,
        workload=_workload(spec),
        exit_code=status.exit_code,
        recipe=spec.recipe,
        runtime=spec.runtime,
        launcher=spec.launcher,
        job_id=record.job.job_id if record.job else None,
        attempt=record.attempt,
        image=ImageFacts(
            ref=record.image.reference if record.image else None, digest=record.image.digest if record.image else None
        ),
        versions=record.versions,
        profiled=spec.profile is not None,
        traced=spec.trace is not None,
        comparable=not reasons,
        not_comparable_because=reasons,
        timing=Timing(queue_s=_queue(record, status), prepare_s=record.prepare_s, total_s=total),
        gpu_hours=spec.gpus * total / 3600 if total is not None and spec.gpu_type != "cpu" else None,
        **{name: getattr(figures, name) for name in figures.__struct_fields__},
    )


def not_comparable(spec: RunSpec, record: Record) -> tuple[str, ...]:
    """Why this run's figure must not be held against a published one; empty when nothing speaks against it."""
    reasons = []
    if spec.mini:
        reasons.append("a mini is a small proxy of the workload, not the workload")
    elif spec.proxy:
        reasons.append("a proxy: the model is not the size it is named after")
    if spec.gpu_type == "cpu":
        reasons.append("measured on CPU")
    if spec.profile:
        reasons.append("profiled")
    if spec.trace:
        reasons.append("communication was traced")
    reasons += spec.disturbed
    if spec.forced:
        reasons.append("rules were overridden with --force: " + ", ".join(spec.forced))
    return tuple(reasons)


def _workload(spec: RunSpec) -> WorkloadFacts:
    return WorkloadFacts(
        plugin=spec.plugin,
        name=spec.workload,
        size=spec.size,
        dtype=spec.dtype,
        gpu_type=spec.gpu_type,
        gpus=spec.gpus,
        sequence_length=spec.model.sequence_length,
        global_batch_size=spec.global_batch_size,
        micro_batch_size=spec.micro_batch_size,
        parallelism=spec.parallelism,
    )


def _queue(record: Record, status: JobStatus) -> float | None:
    if record.job is None or status.started is None:
        return None
    return elapsed(record.job.submitted, status.started)
