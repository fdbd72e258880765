"""Tell infrastructure failures, which are worth a retry, from application failures.

Infrastructure failures are: a node that failed or did not pass the checks before the start, a preempted job, a network
or NCCL that could not be initialized before the first step, a GPU with uncorrectable memory errors, a container that
did not start. Everything else in the log (an exception, out of memory, a missing file) is an application failure, and
so is a failure that could be either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..logs.lines import last_lines, split_label
from ..model import Event, JobStatus, Result
from ..model.launch import PREFLIGHT
from ..run_files import RunFolder
from .collector import Log

LOST = ("node_fail", "preempted")
"""Statuses with which the scheduler reports an infrastructure failure."""

CONNECTING = ("network_error", "nccl_error", "port_in_use")
"""Events that are infrastructure failures before the first step; later, another rank's death looks the same."""

ECHOES = ("peer_lost", "rank_exit", "interrupted", "cancelled")
"""Events that are consequences of another rank's failure."""

TAIL = 256 * 1024
"""Bytes at the end of each log that are searched for container errors."""

_MISUSE = re.compile(r"ncclInvalid(?:Argument|Usage)|ncclUnhandledCudaError")
_BROKEN_GPU = re.compile(r"[Uu]ncorrectable ECC|fallen off the bus")


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
    if status.verdict is not None or result.status != "failed" or status.state == "lost":
        return None
    fatal = [event for event in log.events if event.fatal and event.kind not in ECHOES]
    if fatal:
        return _of_events(fatal, bool(log.steps))
    refused = next(iter(refusals), None) if not log.steps else None
    return f"a container did not start: {refused[:200]}" if refused else None


def _of_events(fatal: list[Event], stepped: bool) -> str | None:
    if all(_infrastructure(event, stepped) for event in fatal):
        return fatal[0].text[:200]
    return None


def _infrastructure(event: Event, stepped: bool) -> bool:
    if event.kind == "gpu_error":
        return bool(_BROKEN_GPU.search(event.text))
    return event.kind in CONNECTING and not stepped and not _MISUSE.search(event.text)


def refusals(pattern: str, run_dir: Path) -> list[str]:
    """Return the log lines that match the regular expression, each from the match on; none for an empty pattern."""
    if not pattern:
        return []
    matches = re.compile(pattern)
    lines = [line for file in RunFolder(path=run_dir).glob("*.out") for line in last_lines(file, TAIL)]
    texts = (split_label(line)[2] for line in lines)
    return [text[found.start() :].strip() for text in texts if (found := matches.search(text))]
