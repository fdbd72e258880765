"""Write the result of an ended run, exactly once: at the end of a followed run, or later by any command."""

from __future__ import annotations

import os
import time

from ..clock import elapsed, lasted_s, set_during
from ..errors import PluginError
from ..launchers.base import Launcher
from ..logs.lines import last_lines, split_label
from ..measure.figures import Figures, measure
from ..model import JobStatus, Result, RunSpec, Value
from ..model.flops import Flops
from ..model.result import ImageFacts, Timing, WorkloadFacts
from ..plugins.manager import Plugins
from ..record import first_step
from ..record.attempts import FOLDER, stored_attempts
from ..record.folder import RESULT, Record, Run, read_result, read_run, sealed, write_steps
from ..record.host import alive, is_me
from ..record.masking import mask_folder
from ..resolve.numbering import first_number
from ..run_files import RunFile
from ..secrets import known
from .cancellation import as_cancelled
from .collect import collect_run
from .collector import Log
from .configuration import stated, with_evidence
from .evidence import decide, gather, with_outcomes
from .gpu_time import gpu_time
from .infrastructure import infrastructure_cause, refusals
from .overhead import profiling_overhead
from .own_result import left_result, own_result
from .recovery import recover
from .verdict import Verdict, judge

TAIL_BYTES = 1 << 16

OWNER_GRACE_S = 60.0
"""Seconds after a run's end in which its owner may still retry it, if that process is on another host."""


def finalize(run: Run, plugins: Plugins) -> Result | None:
    """Return the run's result: the one on disk, a new one if the run has ended, or None while it is running.

    Safe to call from several processes at once: the first write wins, and all return the same result. The result of
    another user's run is only returned: nobody but its owner writes into its folder.
    """
    known = own_result(run, rename=owns(run))
    if known is not None:
        return known
    status = job_status(run, plugins)
    if status.state in ("pending", "running"):
        return None
    ended = assess(run if run.record.job else read_run(run.path), plugins, status)
    if _left_to_owner(ended, plugins):
        return None
    return write(ended) if owns(run) else ended.result


def job_status(run: Run, plugins: Plugins) -> JobStatus:
    """Return the status of the run's job.

    A run without a recorded job is either still being prepared, or its llmbx process died; then the launcher is
    searched for a job.
    """
    record = run.record
    if record.job is not None:
        return plugins.launcher(record.job.launcher).status(record.job, run.path)
    living = alive(record.owner) if record.owner else False
    if living:
        return JobStatus(state="pending", reason="being prepared")
    if living is None and record.owner:
        return JobStatus(state="pending", reason=f"being prepared on {record.owner.host}")
    if not owns(run):
        return JobStatus(state="pending", reason=f"has no recorded job; a command of {run.files.owner} looks for it")
    launcher = plugins.launcher(record.spec.launcher)
    (found,) = recover([run], launcher)
    if found.record.job is not None:
        return launcher.status(found.record.job, run.path)
    return JobStatus(state="lost", reason="llmbx ended before the run was started")


def owns(run: Run) -> bool:
    """Whether this process may change the run's folder: it is its user's, and not in a read-only install.

    A process that started the run may, also if the file system shows another owner for all files.
    """
    starter = run.record.owner
    return (run.files.own or (starter is not None and is_me(starter))) and os.access(run.path, os.W_OK)


def conclude(run: Run, plugins: Plugins, status: JobStatus) -> Result:
    """Write the result of a run that never started, or whose end is known from `status` and not from the launcher."""
    known = own_result(run)
    if known is not None:
        return known
    try:
        return write(assess(run, plugins, status))
    except PluginError:  # the log parser itself may have ended the run; `status` is known without it
        return write(_assess_without_log(run, status))


class Ended(Value, frozen=True):
    """A run that has ended, with its status, log and result; none of it is written yet."""

    run: Run
    status: JobStatus
    log: Log
    result: Result


def retry_cause(ended: Ended, plugins: Plugins) -> str | None:
    """Return the infrastructure failure that calls for a retry; None if there is none or no retry is left."""
    spec, record = ended.run.record.spec, ended.run.record
    if record.attempt >= spec.retries or record.job is None:
        return None
    return infrastructure_cause(ended.status, ended.result, ended.log, _refusals(ended.run, plugins))


def _refusals(run: Run, plugins: Plugins) -> list[str]:
    """Return the log lines in which the run's container tool reports that a rank did not start."""
    runtime = plugins.runtimes().get(run.record.spec.runtime)
    return refusals(runtime.start_failure if runtime else "", run.path)


def _left_to_owner(ended: Ended, plugins: Plugins) -> bool:
    """Whether another process owns the run and will retry it, so that this process must not finalize it."""
    owner = ended.run.record.owner
    if owner is None or is_me(owner) or retry_cause(ended, plugins) is None:
        return False
    living = alive(owner)
    return living is True or (living is None and time.time() - (ended.status.ended or 0.0) < OWNER_GRACE_S)


def launcher_of(run: Run, plugins: Plugins) -> Launcher:
    """Return the launcher that started the run's job."""
    assert run.record.job is not None
    return plugins.launcher(run.record.job.launcher)


def read_log(run: Run, plugins: Plugins) -> Log:
    """Parse the run's log with its framework's parser; empty if there is no log."""
    parser = plugins.framework(run.record.spec.plugin).parse_log(run.record.spec)
    return collect_run(parser, run)


def last_line(log: RunFile) -> str | None:
    """Return the last non-empty line of a log, without its prefix of rank and time."""
    lines = last_lines(log, TAIL_BYTES)
    return next((split_label(line)[2].strip() for line in reversed(lines) if line.strip()), None)


def assess(run: Run, plugins: Plugins, status: JobStatus) -> Ended:
    """Compute figures and verdict of an ended run. Before, the secrets in its files are overwritten (`masking`).

    Nothing is changed in the folder of another user, so its files, beside which profilers write, are not checked.
    """
    spec, status = run.record.spec, as_cancelled(run.files, status)
    own = owns(run)
    if own:
        mask_folder(run.path, os.environ)
    parser = plugins.framework(spec.plugin).parse_log(spec)
    log = collect_run(parser, run)
    refusal = next(iter(_refusals(run, plugins) if not log.steps else ()), None)
    flops, faults = formula(spec, plugins)
    first = first_number(spec, plugins)
    verdict = judge(spec, status, log.steps, log.events, last_line(run.log_file), refusal, first)
    figures = measure(spec, log.steps, flops, first_number=first, declared=parser.measures)
    verdict = _require_steps(verdict, figures, spec) if not log.out_of_order else verdict
    well = verdict.status == "completed"
    facts = stated(run, plugins)
    found = gather(
        run, log, parser.prints, figures, first=first, ended_well=well, configured=facts, lasted_s=lasted_s(status),
        clock_set_s=set_during(status), run_dir=run.path if own else None,
    )  # fmt: skip
    verdict, outcomes = decide(verdict, found, plugins.checks(spec, run.record.captured_by))
    notes = profiling_overhead(spec, log.steps, figures.step_time_s.median, first)
    result = build_result(run.record, status, figures).replace(
        status=verdict.status,
        data_valid=verdict.data_valid,
        cause=verdict.cause,
        attempt=max(run.record.attempt, stored_attempts(run.path)),
        warnings=(
            *figures.warnings,
            *log.notes,
            *faults,
            *notes,
            *spec.inflated,
            *_earlier(run),
            *left_result(run.path),
            *_unsearched(spec),
        ),
        phase_step_time_s=_phases(run.record, log, figures),
    )
    timing = result.timing.replace(first_step_s=first_step.seconds(run, status))
    result = _with_gpu_time(result, run)
    result = with_evidence(with_outcomes(result.replace(timing=timing), outcomes), run, plugins)
    return Ended(run=run, status=status, log=log, result=result)


def _assess_without_log(run: Run, status: JobStatus) -> Ended:
    """Build the result of an ended run from its status alone, without any plugin."""
    spec = run.record.spec
    verdict = judge(spec, status, [], [], last_line(run.log_file))
    result = build_result(run.record, status, measure(spec, [], None)).replace(
        status=verdict.status,
        cause=verdict.cause,
        attempt=max(run.record.attempt, stored_attempts(run.path)),
        warnings=tuple(_earlier(run)),
    )
    return Ended(run=run, status=status, log=Log(), result=_with_gpu_time(result, run))


def _with_gpu_time(result: Result, run: Run) -> Result:
    found = gpu_time(run, result.timing.total_s)
    changed: Result = result.replace(gpu_hours=found.hours, warnings=(*result.warnings, *found.warnings))
    return changed


def formula(spec: RunSpec, plugins: Plugins) -> tuple[Flops | None, tuple[str, ...]]:
    """Return the FLOPs of one sample; if the plugin's formula fails, None and a warning, so the run stays measured."""
    try:
        return plugins.framework(spec.plugin).compute_flops(spec), ()
    except PluginError as error:
        return None, (f"MFU and recomputed TFLOP/s are not available: {error}",)


def write(ended: Ended) -> Result:
    """Write steps and result. If another process was first, its result is kept and returned."""
    run = ended.run
    write_steps(run.path, ended.log.steps)
    won = run.files.write_once(RESULT, sealed(ended.result))
    return ended.result if won else read_result(run.path) or ended.result


def _earlier(run: Run) -> list[str]:
    """Return one line for each attempt before this one."""
    known = {attempt.number: attempt for attempt in run.record.attempts}
    lines = []
    for number in range(stored_attempts(run.path)):
        attempt = known.get(number)
        why = f"ended with {attempt.status}: {attempt.cause}" if attempt else "was requeued by the scheduler"
        lines.append(f"attempt {number} {why}; its files are in {FOLDER}/{number}")
    return lines


def _unsearched(spec: RunSpec) -> list[str]:
    """The warning about secrets whose values this process does not know, so that it cannot find them in the log."""
    unknown = [name for name in spec.secrets if name not in known(os.environ)]
    if not unknown:
        return []
    names = ", ".join(unknown)
    return [f"the log was not searched for the value of {names}, which is not set where the run was finalized"]


def _phases(record: Record, log: Log, figures: Figures) -> dict[str, float]:
    """Return seconds per step by phase, the measured phase last; empty if only one phase trains."""
    found = {
        str(event.facts["role"]): float(event.facts["step_time_s"])
        for event in (*log.earlier, *log.events)
        if event.kind == "phase_time"
    }
    measured = figures.step_time_s.mean
    if found and measured is not None:
        found[[*record.commands][-1]] = measured
    return found


def _require_steps(verdict: Verdict, figures: Figures, spec: RunSpec) -> Verdict:
    """A run of which no step was measured has failed, except for profiled runs and runs from a checkpoint."""
    if not verdict.data_valid or figures.steps_measured or spec.profile or spec.checkpoint.load:
        return verdict
    cause = f"no step was measured in the window {figures.window.policy}: {figures.window.reason}"
    status = "failed" if verdict.status == "completed" else verdict.status
    invalid: Verdict = verdict.replace(status=status, data_valid=False, cause=verdict.cause or cause)
    return invalid


def build_result(record: Record, status: JobStatus, figures: Figures) -> Result:
    """Build the result of a run with the placeholder status `failed`; the caller sets the verdict."""
    spec = record.spec
    reasons = not_comparable(spec, record)
    total = lasted_s(status)
    return Result(
        run_id=record.run_id,
        id=record.name,
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
        profilers=spec.profilers,
        profiled=spec.profile is not None,
        traced=spec.trace is not None,
        comparable=not reasons,
        not_comparable_because=reasons,
        user=record.user,
        expected=record.expected,
        timing=Timing(queue_s=_queue(record, status), prepare_s=record.prepare_s, total_s=total),
        **{name: getattr(figures, name) for name in figures.__struct_fields__},
    )


def not_comparable(spec: RunSpec, record: Record) -> tuple[str, ...]:
    """Return why this run must not be compared with published results; empty if it may be."""
    reasons = []
    if spec.mini:
        reasons.append("a mini is a small proxy of the workload, not the workload")
    elif spec.proxy:
        reasons.append("a proxy: the model differs from the size it is named after")
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
