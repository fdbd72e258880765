"""Build the result of an ended run from what was measured and how it was judged, with its GPU-hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..clock import elapsed, lasted_s
from ..errors import LlmbxError
from ..launchers.exits import read_exit, read_starts
from ..launchers.nodes import node_named, node_of_rank, read_nodes
from ..model import Figures, JobStatus, Node, Result, RunSpec, Value
from ..model.failure import Failure
from ..model.result import CheckOutcome, ImageFacts, Timing, WorkloadFacts
from ..model.run_folder import batch_name
from ..record import first_step
from ..record.attempts import FOLDER, earlier_numbers, stored_attempts
from ..record.folder import RESULT, Record, Run, read_result
from ..run_files import RunFolder
from .cancellation import WHY as NEVER
from .checks import texts
from .configuration import Doubts

if TYPE_CHECKING:
    from .verdict import Verdict

CAUSE = ("cause", "cause_rank", "cause_ranks", "cause_node", "doubt")
"""Members that say who failed first, and why."""


def result_of(
    run: Run,
    status: JobStatus,
    verdict: Verdict,
    figures: Figures,
    outcomes: tuple[CheckOutcome, ...] = (),
    doubts: Doubts = Doubts(),  # noqa: B008 (frozen)
    notes: Sequence[str] = (),
    phases: Mapping[str, float] = {},
    outside_steps_s: float | None = None,
) -> Result:
    """Return the result of a run, whose training spent `outside_steps_s` seconds in no step.

    `outcomes` are those of its checks, `doubts` what its final configuration shows, `notes` further warnings, and
    `phases` the seconds per step by phase.
    """
    result = build_result(run.record, status, figures)
    time = gpu_time(run, result.timing.total_s)
    severe = [text for kind in ("invalid", "failed") for text in texts(outcomes, kind)]
    reasons = (*result.not_comparable_because, *texts(outcomes, "not comparable"), *doubts.reasons)
    changed: Result = result.replace(
        status=verdict.status,
        data_valid=verdict.data_valid,
        cause=verdict.cause,
        **_who(verdict, status, read_nodes(run.path)),
        attempt=max(run.record.attempt, stored_attempts(run.path)),
        checks=outcomes,
        comparable=not reasons,
        not_comparable_because=reasons,
        versions={**doubts.versions, **result.versions},
        timing=result.timing.replace(first_step_s=first_step.seconds(run, status), outside_steps_s=outside_steps_s),
        phase_step_time_s=dict(phases),
        gpu_hours=time.hours,
        warnings=(
            *(text for text in severe if text != verdict.cause),
            *texts(outcomes, "warning"),
            *figures.warnings,
            *notes,
            *time.warnings,
            *doubts.warnings,
        ),
    )
    return _of_attempt_before(run, status, changed)


def _of_attempt_before(run: Run, status: JobStatus, result: Result) -> Result:
    """The result of a retry that never started: its cause is that of the attempt before, which is why it was made."""
    if status.verdict != NEVER or not run.record.attempts:
        return result
    with suppress(LlmbxError):
        before = read_result(run.path / FOLDER / str(run.record.attempts[-1].number))
        if before is not None:
            cause = {name: getattr(before, name) for name in CAUSE}
            why = f"attempt {run.record.attempt} could not be started: {result.cause}"
            kept: Result = result.replace(**cause, warnings=(why, *result.warnings))
            return kept
    return result


def _who(verdict: Verdict, status: JobStatus, nodes: Sequence[Node]) -> dict[str, object]:
    """The members of a result that say which rank failed first, and on which node, as the scheduler names it."""
    failure = verdict.failure
    if verdict.cause is None:
        return {}
    if failure is None:
        ranks = () if status.rank is None else (status.rank,)
        node = status.node or (None if status.rank is None else node_of_rank(nodes, status.rank))
        return {"cause_rank": status.rank, "cause_ranks": ranks, "cause_node": node}
    if failure.cause[:200] not in verdict.cause:
        return {}
    rank = failure.rank if failure.rank is not None or failure.ranks else status.rank
    return {
        "cause_rank": rank,
        "cause_ranks": failure.ranks or (() if rank is None else (rank,)),
        "cause_node": _node(failure, rank, status, nodes),
        "doubt": failure.doubt,
    }


def _node(failure: Failure, rank: int | None, status: JobStatus, nodes: Sequence[Node]) -> str | None:
    """The node of a failure: the one that its lines name, else that of its rank."""
    if failure.node is not None and (named := node_named(nodes, failure.node)):
        return named
    if rank is not None and (own := node_of_rank(nodes, rank)):
        return own
    return failure.node or (status.node if rank is not None and rank == status.rank else None)


def build_result(record: Record, status: JobStatus, figures: Figures) -> Result:
    """Build the result of a run with the placeholder status `failed`; the caller sets the verdict."""
    spec = record.spec
    reasons = not_comparable(spec, record)
    total = lasted_s(status)
    return Result(
        run_id=record.run_id,
        id=record.id,
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
    if spec.derived:
        reasons.append(spec.derived)
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
        layout_of=spec.layout_of,
        scaled_from=spec.scaled_from,
        sequence_length=spec.model.sequence_length,
        global_batch_size=spec.global_batch_size,
        micro_batch_size=spec.micro_batch_size,
        parallelism=spec.parallelism,
    )


def _queue(record: Record, status: JobStatus) -> float | None:
    if record.job is None or status.started is None:
        return None
    return elapsed(record.job.submitted, status.started)


class GpuTime(Value, frozen=True):
    """GPU-hours of all attempts, None if unknown, and what a reader must know about them."""

    hours: float | None
    warnings: tuple[str, ...] = ()


class Spent(Value, frozen=True):
    """Seconds of one attempt, None if unknown. `until_output`: its end is the time of its last output."""

    number: int
    seconds: float | None
    started: bool = True
    until_output: bool = False


def gpu_time(run: Run, total_s: float | None) -> GpuTime:
    """The GPU-hours of an ended run whose last attempt took `total_s` seconds (None: its end was not recorded).

    An attempt whose end was not recorded, because its node failed, counts until its last output, with a warning. If
    nothing is known about the time of an attempt, the sum is unknown. None without GPUs, or if no attempt started.
    """
    spec = run.record.spec
    if spec.gpu_type == "cpu":
        return GpuTime(hours=None)
    spent = list(_attempts(run.path, spec, total_s, earlier_numbers(run.files)))
    warnings = [
        f"the end of attempt {attempt.number} was not recorded: its GPU-hours count until its last output"
        for attempt in spent
        if attempt.until_output
    ]
    unknown = [attempt.number for attempt in spent if attempt.seconds is None]
    if len(spent) > 1 and unknown:
        numbers = ", ".join(map(str, unknown))
        return GpuTime(hours=None, warnings=(f"GPU-hours are unknown: attempt {numbers} recorded no time",))
    if unknown or not any(attempt.started for attempt in spent):
        return GpuTime(hours=None)
    seconds = sum(attempt.seconds or 0.0 for attempt in spent)
    return GpuTime(hours=spec.gpus * seconds / 3600, warnings=tuple(warnings))


def _attempts(run_dir: Path, spec: RunSpec, total_s: float | None, earlier: list[int]) -> Iterator[Spent]:
    """Every attempt, those with the numbers `earlier` first, and the last one at the end.

    A scheduler that requeues a job starts its script again: the output of all these starts is in one file, which stays
    with the last of them.
    """
    if not earlier and total_s is not None:
        yield Spent(number=0, seconds=total_s)
        return
    requeued: list[tuple[int, Path]] = []
    for number, folder in [*((number, run_dir / FOLDER / str(number)) for number in earlier), (len(earlier), run_dir)]:
        last, output = folder == run_dir, RunFolder(path=folder).file(batch_name(spec))
        starts = [start.at for start in read_starts(output)]
        if not last and not output.exists() and not RunFolder(path=folder).file(RESULT).exists():
            requeued.append((number, folder))
            continue
        for index, (earlier_number, earlier_folder) in enumerate(requeued):
            begun = starts[index] if index < len(starts) else None
            yield _requeued(earlier_number, earlier_folder, begun)
        seconds = total_s if last else _recorded(folder)
        if seconds is None and not starts and not output.exists():
            yield Spent(number=number, seconds=0.0, started=False)
        else:
            yield _spent(number, folder, starts[-1] if len(starts) > len(requeued) else None, seconds)
        requeued = []


def _requeued(number: int, folder: Path, begun: float | None) -> Spent:
    """An attempt whose files the script of the next start moved away."""
    end = read_exit(folder)
    return _spent(number, folder, begun, lasted_s(end.status()) if end else None)


def _recorded(folder: Path) -> float | None:
    with suppress(LlmbxError):  # damaged
        result = read_result(folder)
        return result.timing.total_s if result else None
    return None


def _spent(number: int, folder: Path, begun: float | None, recorded: float | None) -> Spent:
    if recorded is not None and recorded >= 0:
        return Spent(number=number, seconds=recorded)
    seconds = elapsed(begun, RunFolder(path=folder).last_written("*.out"))
    return Spent(number=number, seconds=seconds, until_output=seconds is not None)
