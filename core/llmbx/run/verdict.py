"""Determine status, validity and cause of an ended run from its job and its log, and whether to retry it.

There is never a false pass. Worth a retry are failures of the infrastructure: a node that failed or did not
pass the checks before the start, a preempted job, a container that did not start on its node, and what the
first failure of the log says (`timeline`): a broken GPU or link whatever the other ranks print about it, a
network or NCCL that could not be initialized before the first step. Everything else (an exception, out of
memory, a missing file, a refused image) is a failure of the application, and so is what could be either.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..logs.lines import last_lines, split_label
from ..logs.origin import of_daemon
from ..logs.timeline import FIRST, failure, refused_by_all
from ..measure.training import Training
from ..model import Event, JobStatus, Result, RunSpec, Step, Value
from ..model.failure import Failure
from ..model.launch import PREFLIGHT
from ..model.result import Status
from ..run_files import RunFolder
from .cancellation import WHY as NEVER

if TYPE_CHECKING:
    from .collect import Log

STOPPED = ("cancelled", "timeout", "stalled", "not_started", "preempted", "node_fail", "broken_off")
"""Verdicts whose reason does not come from the log; what ranks print while they are being stopped is not the cause."""


class Verdict(Value, frozen=True):
    """Status, whether the measured data is valid, and the cause in one line (None for a success).

    `failure` is set if the cause is that of the log.
    """

    status: Status
    data_valid: bool
    cause: str | None = None
    failure: Failure | None = None


def judge(
    spec: RunSpec,
    job: JobStatus,
    steps: Sequence[Step],
    events: Sequence[Event],
    last_line: str | None = None,
    refusal: str | None = None,
    first: int | None = None,
    later: Sequence[int] = (),
) -> Verdict:
    """Return the verdict on an ended run. `first` is the number of the framework's first step, if known.

    `later` is the number of steps after each event (see `timeline.failure`).

    If nothing else explains a failure, the cause quotes `refusal`, the container tool's message that a rank did not
    start, else the `last_line` of the log.

    A run is completed if the process succeeded, the last expected step was seen, and every loss is finite. A run with
    complete data whose teardown failed is `data_valid`, with its exit code and cause.
    """
    first_failure = _of_task(failure(events, later, bool(steps), failed=True), job)
    diverged = Training(steps).fault
    whole = reached_end(spec, steps, first) and diverged is None
    status = _status(job, first_failure)
    if diverged is not None:
        return Verdict(status=status, data_valid=False, cause=diverged)
    if job.verdict is not None:
        if job.verdict in STOPPED and job.reason:
            return Verdict(status=status, data_valid=whole, cause=job.reason)
        cause = _line(first_failure, job) or job.reason or None
        return Verdict(status=status, data_valid=whole, cause=cause, failure=first_failure)
    if job.phase == PREFLIGHT:
        return Verdict(status="failed", data_valid=False, cause=job.reason or "a node failed its check")
    if job.state == "lost":
        return Verdict(
            status="lost", data_valid=whole, cause=job.reason or "the job is gone and its exit code is unknown"
        )
    if job.exit_code == 0 and whole:
        return Verdict(status="completed", data_valid=True)
    if job.exit_code == 0:
        return Verdict(status="failed", data_valid=False, cause=_short(spec, steps))
    if first_failure is not None and first_failure.cause == exited(job):
        quote = _quote(spec, last_line, None if steps else refusal)
        return Verdict(status=status, data_valid=whole, cause=_after(whole, _exit(job, quote)))
    cause = _line(first_failure, job) or _exit(job, _quote(spec, last_line, None if steps else refusal))
    return Verdict(status=status, data_valid=whole, cause=_after(whole, cause), failure=first_failure)


def _after(whole: bool, cause: str) -> str:
    return f"after the last step: {cause}" if whole else cause


def reached_end(spec: RunSpec, steps: Sequence[Step], first: int | None = None) -> bool:
    """Whether the last of `spec.steps` steps was seen.

    If `first` is unknown, the last step is the one that the log announces, but at least the one expected if numbers
    begin at 0: the log alone is not enough, as a program that was started with fewer steps announces fewer. For a run
    that loads a checkpoint only the log states the last step.
    """
    if not steps:
        return False
    last = steps[-1]
    if spec.checkpoint.load:
        return last.total is None or last.number >= last.total
    if first is not None:
        return last.number >= first + spec.steps - 1
    return last.number >= (spec.steps - 1 if last.total is None else max(last.total, spec.steps - 1))


def _of_task(failure: Failure | None, job: JobStatus) -> Failure | None:
    """The failure with the rank that the launcher names, if the daemon of its node reports the failure."""
    if failure is None or job.rank is None or failure.node != job.node or not of_daemon(failure.cause):
        return failure
    named: Failure = failure.replace(rank=job.rank, ranks=(job.rank,))
    return named


def _status(job: JobStatus, failure: Failure | None) -> Status:
    if job.verdict in ("timeout", "node_fail", "preempted", "out_of_memory", "cancelled"):
        return job.verdict  # type: ignore[return-value]
    return "out_of_memory" if failure is not None and failure.kind == "out_of_memory" else "failed"


def _line(failure: Failure | None, job: JobStatus) -> str | None:
    """The cause with who failed, as far as is known; None without a failure in the log."""
    if failure is None:
        return None
    if failure.kind == "killed" and job.verdict == "out_of_memory" and job.reason:
        return f"rank {job.rank}: {job.reason}" if job.rank is not None else job.reason  # the log has no cause
    text = failure.cause if len(failure.cause) <= 300 else failure.cause[:297] + "…"
    who = failure.who or (f"rank {job.rank}" if job.rank is not None and not failure.ranks else None)
    return f"{who}: {text}" if who else text


def _quote(spec: RunSpec, last_line: str | None, refusal: str | None) -> str | None:
    if refusal:
        return f"{spec.runtime}: {refusal[:300]}"
    return f"its log ends with: {last_line[:300]}" if last_line else None


def _exit(job: JobStatus, quote: str | None) -> str:
    where = f"rank {job.rank} " if job.rank is not None else "the run "
    if job.phase:
        where += f"(phase {job.phase}) "
    text = f"{where}{exited(job)}" + (f"; {job.reason}" if job.reason else "")
    return f"{text}; {quote}" if quote and (job.exit_code or 0) <= 128 else text


def exited(job: JobStatus) -> str:
    """How the first rank ended that failed, by its exit code."""
    code = job.exit_code
    if code is None or code <= 128:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        name = f"signal {code - 128}"
    return f"was killed by {name} (exit code {code})"


def with_end(log: Log, job: JobStatus) -> Log:
    """The log with the end of the rank that ended first, as the launcher has it; as it is if that is not known."""
    if job.rank is None or not job.exit_code or job.verdict is not None:
        return log
    end = Event(
        kind="rank_exit", text=exited(job), rank=job.rank, node=job.node, fatal=True,
        facts={"exit_code": job.exit_code, FIRST: 1},
    )  # fmt: skip
    later = [*log.later, 0] if len(log.later) == len(log.events) else log.later
    ended: Log = log.replace(events=[*log.events, end], later=later)
    return ended


def _short(spec: RunSpec, steps: Sequence[Step]) -> str:
    if not steps:
        return "the program ended with exit code 0 but its log has no training step"
    return f"the program ended with exit code 0 after step {steps[-1].number}, before the last of {spec.steps} steps"


LOST = ("node_fail", "preempted")
"""Statuses with which the scheduler reports an infrastructure failure."""

UNSPECIFIC = ("rank_exit", "stopped", "interrupted", "cancelled", "peer_lost")
"""Kinds of failure that a container tool's message may explain better."""

TAIL = 256 * 1024
"""Bytes at the end of each log that are searched for container errors."""


def infrastructure_cause(status: JobStatus, result: Result, log: Log, refusals: Iterable[str]) -> str | None:
    """Return the infrastructure failure that ended the run, in a few words; None if there is none or it is unclear.

    `refusals` are the lines in which a container tool reports that a rank did not start. A run with valid data has no
    infrastructure failure.
    """
    if result.status == "completed" or result.data_valid:
        return None
    if result.status in LOST:
        return result.cause or result.status
    if status.phase == PREFLIGHT and status.verdict is None:
        return result.cause
    if status.verdict == NEVER and status.node is not None:
        return result.cause  # of one node; another may run the job
    if status.verdict is not None or result.status != "failed" or status.state == "lost":
        return None
    failure = with_end(log, status).failure_of_failed
    if failure is not None and (failure.infrastructure or failure.kind not in UNSPECIFIC):
        return failure.cause[:200] if failure.infrastructure else None
    refused = next(iter(refusals), None) if not log.steps else None
    return f"a container did not start: {refused[:200]}" if refused and not refused_by_all(refused) else None


def refusals(pattern: str, run_dir: Path) -> list[str]:
    """Return the log lines that match the regular expression, each from the match on; none for an empty pattern."""
    if not pattern:
        return []
    refusal = re.compile(pattern)
    lines = [line for file in RunFolder(path=run_dir).glob("*.out") for line in last_lines(file, TAIL)]
    texts = (split_label(line)[2] for line in lines)
    return [text[match.start() :].strip() for text in texts if (match := refusal.search(text))]
