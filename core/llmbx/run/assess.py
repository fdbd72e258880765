"""Assess an ended run: read its log, measure it, gather the evidence, and judge it. Nothing of it is written."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..clock import lasted_s, set_during
from ..entry.seen import FILE as SEEN
from ..errors import ImpossibleValueError, PluginError
from ..launchers.nodes import read_nodes
from ..logs.lines import last_lines, split_label
from ..logs.origin import last_words
from ..measure import stats
from ..measure.figures import measure, profiled_numbers
from ..measure.window import log_interval
from ..model import Arrival, Evidence, Figures, JobStatus, Prints, Result, RunSpec, Step, Value
from ..model.flops import Flops
from ..record import arrivals
from ..record.attempts import FOLDER, stored_attempts
from ..record.folder import Record, Run, owns
from ..record.masking import mask_folder
from ..resolve.numbering import first_number
from ..secrets import known
from .cancellation import as_cancelled
from .checks import decide
from .collect import Log, collect_run
from .configuration import Doubts, configuration_doubts, stated
from .own_result import left_result
from .result import result_of
from .verdict import Verdict, judge, refusals, with_end

if TYPE_CHECKING:
    from ..plugins.manager import Plugins

TAIL_BYTES = 1 << 16

NO_PLUGIN = "its steps were not judged and no check was made: no installed plugin registers a judge"


class Ended(Value, frozen=True):
    """A run that has ended, with its status, log and result; none of it is written yet."""

    run: Run
    status: JobStatus
    log: Log
    result: Result


@dataclasses.dataclass(frozen=True)
class Reading:
    """What the log of a run says, and what was measured in it."""

    log: Log
    prints: Prints | None
    first: int | None
    """Number of the framework's first step."""
    figures: Figures
    faults: tuple[str, ...]
    """Why figures are missing."""
    impossible: tuple[str, ...]
    """Those of them that are a value that cannot be true."""


def assess(run: Run, plugins: Plugins, status: JobStatus) -> Ended:
    """Compute figures and verdict of an ended run. Before, the secrets in its files are overwritten (`masking`).

    Nothing is changed in the folder of another user, so its files, beside which profilers write, are not checked.
    """
    status = as_cancelled(run.files, status)
    if owns(run):
        mask_folder(run.path, os.environ)
    reading = _read(run, plugins)
    verdict = _judge_end(run, plugins, status, reading)
    evidence = _gather(run, plugins, status, reading, verdict)
    outside_s = _outside_steps_s(evidence, plugins)
    verdict, outcomes = decide(verdict, evidence, plugins.checks(run.record.spec, run.record.captured_by))
    verdict = _require_steps(verdict, reading.figures, run.record.spec)
    doubts = configuration_doubts(run, plugins) if verdict.status == "completed" else Doubts()
    notes = (*_notes(run, reading), *(() if plugins.judges else (NO_PLUGIN,)))
    phases = _phases(run.record, reading.log, reading.figures)
    result = result_of(run, status, verdict, reading.figures, outcomes, doubts, notes, phases, outside_s)
    seen = plugins.observe_run(evidence)
    result = result.replace(
        nodes=seen.nodes,
        hardware=seen.hardware,
        stragglers=seen.stragglers,
        warnings=(*result.warnings, *seen.warnings),
    )
    return Ended(run=run, status=status, log=reading.log, result=result)


def assess_without_log(run: Run, status: JobStatus) -> Ended:
    """Build the result of an ended run from its status alone, without any plugin."""
    spec = run.record.spec
    verdict = judge(spec, status, [], [], last_line(run))
    result = result_of(run, status, verdict, measure(spec, [], None), notes=_earlier(run))
    return Ended(run=run, status=status, log=Log(), result=result)


def _read(run: Run, plugins: Plugins) -> Reading:
    """Parse the log of a run, and measure its steps."""
    spec = run.record.spec
    parser = plugins.framework(spec.plugin).parse_log(spec)
    log = collect_run(parser, run)
    flops, faults, impossible = formula(spec, plugins)
    first = first_number(spec, plugins)
    figures = measure(spec, log.steps, flops, first_number=first, declared=parser.measures, judge=plugins.judge)
    return Reading(log, parser.prints, first, figures, faults, impossible)


def _judge_end(run: Run, plugins: Plugins, status: JobStatus, reading: Reading) -> Verdict:
    """How the run ended, by its job and its log."""
    log, spec = with_end(reading.log, status), run.record.spec
    refusal = next(iter(start_refusals(run, plugins) if not log.steps else ()), None)
    last = last_line(run, status.rank)
    verdict = judge(spec, status, log.steps, log.events, last, refusal, reading.first, log.later)
    return verdict if log.out_of_order else _require_steps(verdict, reading.figures, spec)


def _gather(run: Run, plugins: Plugins, status: JobStatus, reading: Reading, verdict: Verdict) -> Evidence:
    """Everything that the checks read."""
    return gather(
        run,
        reading.log,
        reading.prints,
        reading.figures,
        first=reading.first,
        ended_well=verdict.status == "completed",
        configured=stated(run, plugins),
        lasted_s=lasted_s(status),
        started_at=status.started,
        impossible=reading.impossible,
        clock_set_s=set_during(status),
        run_dir=run.path if owns(run) else None,
    )


def _notes(run: Run, reading: Reading) -> tuple[str, ...]:
    """The warnings that are neither about a figure nor from a check."""
    spec, log = run.record.spec, reading.log
    return (
        *log.notes,
        *reading.faults,
        *profiling_overhead(spec, log.steps, reading.figures.step_time_s.median, reading.first),
        *spec.inflated,
        *_earlier(run),
        *left_result(run.path),
        *_unsearched(spec),
    )


def start_refusals(run: Run, plugins: Plugins) -> list[str]:
    """Return the log lines in which the run's container tool reports that a rank did not start."""
    runtime = plugins.runtimes().get(run.record.spec.runtime)
    return refusals(runtime.start_failure if runtime else "", run.path)


def last_line(run: Run, rank: int | None = None) -> str | None:
    """Return the last non-empty line of a run's log, without its prefix of rank and time; that of a rank, if known."""
    own = run.files.file(f"rank-{rank}.log")
    lines = last_lines(own if own.exists() else run.log_file, TAIL_BYTES)
    if rank is not None and (words := last_words(lines, rank)):
        return words
    parts = (split_label(line) for line in reversed(lines))
    return next((text.strip() for _, who, text in parts if text.strip() and (None in (rank, who))), None)


class Formula(NamedTuple):
    """The FLOPs of one sample, or why they are not known; `impossible` has what the plugin answered in their place."""

    flops: Flops | None
    faults: tuple[str, ...] = ()
    impossible: tuple[str, ...] = ()


def formula(spec: RunSpec, plugins: Plugins) -> Formula:
    """Return the FLOPs of one sample; if the plugin's formula fails, None and a warning, so the run stays measured."""
    try:
        return Formula(plugins.framework(spec.plugin).compute_flops(spec))
    except PluginError as error:
        faults = (f"MFU and recomputed TFLOP/s are not available: {error}",)
        return Formula(None, faults, (str(error),) if isinstance(error, ImpossibleValueError) else ())


def _outside_steps_s(evidence: Evidence, plugins: Plugins) -> float | None:
    """The seconds of the training that are in no step; unknown if the judge fails."""
    try:
        return plugins.judge.outside_steps_s(evidence) if evidence.steps else None
    except PluginError:
        return None


def _earlier(run: Run) -> list[str]:
    """Return one line for each attempt before this one."""
    recorded = {attempt.number: attempt for attempt in run.record.attempts}
    lines = []
    for number in range(stored_attempts(run.path)):
        attempt = recorded.get(number)
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
    phases = {
        str(event.facts["role"]): float(event.facts["step_time_s"])
        for event in (*log.earlier, *log.events)
        if event.kind == "phase_time"
    }
    measured = figures.step_time_s.mean
    if phases and measured is not None:
        phases[[*record.commands][-1]] = measured
    return phases


def _require_steps(verdict: Verdict, figures: Figures, spec: RunSpec) -> Verdict:
    """A run without a measured step has failed, except for profiled runs and runs from a checkpoint."""
    if not verdict.data_valid or figures.steps_measured or spec.profile or spec.checkpoint.load:
        return verdict
    cause = f"no step was measured in the window {figures.window.policy}: {figures.window.reason}"
    status = "failed" if verdict.status == "completed" else verdict.status
    invalid: Verdict = verdict.replace(status=status, data_valid=False, cause=verdict.cause or cause)
    return invalid


def profiling_overhead(
    spec: RunSpec, steps: Sequence[Step], measured_s: float | None, first_number: int | None = None
) -> tuple[str, ...]:
    """Return one line on how much longer profiled steps took than measured ones, or nothing if it is unknown.

    `measured_s` is the median of the measured steps in seconds.
    """
    if spec.profile is None or not measured_s:
        return ()
    numbers = sorted(profiled_numbers(spec, steps, first_number))
    times = {step.number: step.time_s for step in steps if step.time_s is not None}
    profiled = stats.median([times[number] for number in numbers[:-1] if number in times])
    if profiled is None:
        return ()
    text = (
        f"profiled steps took {profiled / measured_s:.2f} times as long as measured ones "
        f"({profiled:.4g} s against {measured_s:.4g} s)"
    )
    writing = times.get(numbers[-1])
    return (text if writing is None else f"{text}, the step after them, which waits for the file, {writing:.4g} s",)


def gather(
    run: Run | None,
    log: Log,
    prints: Prints | None,
    figures: Figures | None = None,
    steps: Sequence[Step] | None = None,
    **facts: Any,
) -> Evidence:
    """Return the evidence about a log. `run` is the run of llmbx that wrote it, if any.

    `steps` replaces the log's own. `facts` are members of `Evidence` that neither the log nor the run's folder has.
    """
    measured = tuple(log.steps if steps is None else steps)
    return Evidence(
        steps=measured,
        interval=log_interval([step.number for step in measured]),
        events=tuple(log.events),
        earlier=tuple(log.earlier),
        before=tuple(event for event, later in zip(log.events, log.later, strict=False) if later >= len(log.steps)),
        after=tuple(log.after),
        conflicts=tuple(log.conflicts),
        damage=log.damage,
        arrivals=_arrivals(run) if run else (),
        spec=run.record.spec if run else None,
        prints=prints,
        figures=figures,
        gpus=seen_gpus(run) if run else None,
        out_of_order=log.out_of_order,
        nodes=read_nodes(run.path) if run else (),
        **facts,
    )


def _arrivals(run: Run) -> tuple[Arrival, ...]:
    return tuple(Arrival(number=number, at=at, width=width) for number, at, width in arrivals.of(run))


def seen_gpus(run: Run) -> tuple[str, ...] | None:
    """The product names of the GPUs that the first rank saw; None if it recorded nothing."""
    try:
        gpus = json.loads(run.files.read(SEEN))["gpus"]
        return tuple(str(gpu["name"]) for gpu in gpus if gpu.get("name"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
