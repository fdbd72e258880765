"""Distinguish infrastructure failures, which are worth a retry, from application failures.

Infrastructure failures are: a node that failed or did not pass the checks before the start, a preempted job, a
container that did not start on its node, and what the first failure of the log says (`timeline`): a broken GPU or link
whatever the other ranks print about it, a network or NCCL that could not be initialized before the first step.
Everything else (an exception, out of memory, a missing file, a refused image) is an application failure, and so is what
could be either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..logs.lines import last_lines, split_label
from ..logs.timeline import refused_by_all
from ..model import JobStatus, Result
from ..model.launch import PREFLIGHT
from ..run_files import RunFolder
from .cancellation import WHY as NEVER
from .verdict import with_end

if TYPE_CHECKING:
    from .collector import Log

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
