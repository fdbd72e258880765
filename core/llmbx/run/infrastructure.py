"""Telling failures of the infrastructure from failures of what runs on it: only the former are worth another attempt.

Infrastructure is: a node that failed or was found bad before the start, a job that was preempted, a network or NCCL
that could not be initialised before the first step, a GPU that reports uncorrectable memory errors, a container that
did not start. Whatever else the log tells of (an exception, memory, a missing file) is the application's, and so is a
failure that both could explain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..logs.lines import LineReader, split_label
from ..model import Event, JobStatus, Result
from ..model.launch import PREFLIGHT
from .collect import Log

LOST = ("node_fail", "preempted")
"""Statuses that are the scheduler's word for a failure of its own."""

CONNECTING = ("network_error", "nccl_error", "port_in_use")
"""Kinds of event that are the infrastructure's before the first step; later another rank's death looks the same."""

ECHOES = ("peer_lost", "rank_exit", "interrupted", "cancelled")
"""Kinds of event that follow from another rank's failure."""

TAIL = 256 * 1024

_MISUSE = re.compile(r"ncclInvalid(?:Argument|Usage)|ncclUnhandledCudaError")
_BROKEN_GPU = re.compile(r"[Uu]ncorrectable ECC|fallen off the bus")


def infrastructure_cause(status: JobStatus, result: Result, log: Log, said: Iterable[str]) -> str | None:
    """Why the infrastructure is to blame for this failure, in a few words; None where it is not, or nobody can say.

    `said` are the lines with which a container tool says that a rank did not start. Data that is whole was not lost to
    anything.
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
    refused = next(iter(said), None) if not log.steps else None
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
    """The lines of a run's logs, from where the regular expression fits on; nothing fits an empty one."""
    if not pattern:
        return []
    fits = re.compile(pattern)
    lines = [line for path in sorted(run_dir.glob("*.out")) for line in _tail(path)]
    texts = (split_label(line)[2] for line in lines)
    return [text[found.start() :].strip() for text in texts if (found := fits.search(text))]


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            return LineReader().feed(file.read() + b"\n")
    except OSError:
        return []
