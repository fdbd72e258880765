"""Query the state of Slurm jobs: one squeue for all watched jobs, and sacct for those that it no longer has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from llmbx.api import InfraError, Unreachable

from .commands import call

REFRESH_S = 2.0
"""Maximum age of a cached state, in seconds."""

BATCH_SIZE = 2000
"""Maximum number of jobs in one query: a command argument is limited to 128 KiB (`MAX_ARG_STRLEN` of Linux)."""

BACKOFF_S = 10.0
"""Pause in seconds after a query that the controller did not answer; a command takes about as long to time out."""

DIGITS = 12
"""Maximum length of a number in the output of Slurm (an epoch second has 10 digits)."""

PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
RUNNING = frozenset(
    {
        "CONFIGURING",
        "RUNNING",
        "COMPLETING",
        "SIGNALING",
        "STAGE_OUT",
        "STOPPED",
        "SUSPENDED",
        "RESIZING",
        "POWER_UP_NODE",
    }
)
VERDICTS = {
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "CANCELLED": "cancelled",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "LAUNCH_FAILED": "node_fail",
    "OUT_OF_MEMORY": "out_of_memory",
    "PREEMPTED": "preempted",
}
"""Status in `result.json` by Slurm's state. For COMPLETED and FAILED the status depends on the data instead."""


class SlurmState(msgspec.Struct, frozen=True):
    """The state of one job as Slurm reports it; times in epoch seconds, `exit_code` as a shell reports it."""

    name: str
    reason: str = ""
    nodes: str = ""
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None

    @property
    def live(self) -> bool:
        """Whether the job is pending or running."""
        return self.name in PENDING or self.name in RUNNING


class Queue:
    """The jobs that this process watches, with their cached states."""

    def __init__(self, command: Callable[..., str] = call, now: Callable[[], float] = time.monotonic) -> None:
        self._call = command
        self._now = now
        self._watched: set[str] = set()
        self._unseen: set[str] = set()
        self._known: dict[str, SlurmState] = {}
        self._exit_queried: set[str] = set()
        self._refreshed_at = float("-inf")
        self._accounting = True
        self._unreachable: Unreachable | None = None
        self._accounting_error: Unreachable | None = None

    def state(self, job_id: str) -> SlurmState | None:
        """The job's state, at most `REFRESH_S` seconds old; None if Slurm does not know the job any more.

        Raises `Unreachable` if the controller does not respond, or accounting for a job that is no longer in the queue.
        """
        known = self._known.get(job_id)
        if known is not None and not known.live:
            return known
        age = self._now() - self._refreshed_at
        if self._unreachable is not None and age < BACKOFF_S:
            raise self._unreachable
        if job_id not in self._watched or job_id in self._unseen or age >= REFRESH_S:
            self._watched.add(job_id)
            self._refresh()
        if job_id not in self._known and self._accounting_error is not None:
            raise self._accounting_error
        return self._known.get(job_id)

    def watch(self, job_ids: Iterable[str]) -> None:
        """Include these jobs in the next query."""
        new = {job for job in job_ids if job not in self._known and job not in self._watched}
        self._watched |= new
        self._unseen |= new

    def with_exit(self, job_id: str) -> SlurmState | None:
        """The state of an ended job with its exit code from the controller; needs one query for each job."""
        known = self._known.get(job_id)
        if known is None or known.live or known.exit_code is not None or job_id in self._exit_queried:
            return known
        self._exit_queried.add(job_id)
        self._known[job_id] = self._query_exit(job_id.partition(";")[2], _number(job_id), known)
        return self._known[job_id]

    def last(self, job_id: str) -> SlurmState | None:
        """The last known state of the job, without a query."""
        return self._known.get(job_id)

    def _refresh(self) -> None:
        for cluster, ids in _batches(_by_cluster(self._watched)):
            found = self._query(cluster, ids)
            found |= self._query_accounting(cluster, [job for job in ids if job not in found])
            for job in ids:
                if job in found:
                    self._known[job] = found[job]
                elif job in self._known:
                    del self._known[job]
        self._refreshed_at = self._now()
        self._unseen.clear()
        self._watched = {job for job in self._watched if job not in self._known or self._known[job].live}

    def _query(self, cluster: str, ids: Iterable[str]) -> dict[str, SlurmState]:
        try:
            found = self._query_queue(cluster, ids)
        except Unreachable as error:
            self._unreachable, self._refreshed_at = error, self._now()
            raise
        self._unreachable = None
        return found

    def _query_queue(self, cluster: str, ids: Iterable[str]) -> dict[str, SlurmState]:
        """States by job from squeue; jobs that the controller does not know are missing."""
        numbers = {_number(job): job for job in ids}
        arguments = ("--noheader", "--states=all", f"--jobs={','.join(numbers)}", "--format=%i|%T|%S|%e|%N|%r")
        try:
            text = self._call("squeue", *_cluster_option(cluster), *arguments)
        except Unreachable:
            raise
        except InfraError as error:
            if "Invalid job id" in str(error):
                return {}
            raise
        found = {}
        for line in text.splitlines():
            fields = line.split("|", 5)
            if len(fields) == 6 and fields[0] in numbers:
                found[numbers[fields[0]]] = _state(*fields[1:])
        return found

    def _query_exit(self, cluster: str, number: str, state: SlurmState) -> SlurmState:
        try:
            text = self._call("scontrol", *_cluster_option(cluster), "--oneliner", "show", "job", number)
        except InfraError:
            return state
        codes = [name.partition("=")[2] for name in text.split() if name.startswith("ExitCode=")]
        return _with_code(state, codes[0]) if codes else state

    def _query_accounting(self, cluster: str, ids: list[str]) -> dict[str, SlurmState]:
        """States by job from sacct, for jobs that are no longer in the queue; empty if accounting is disabled."""
        if not ids or not self._accounting:
            return {}
        numbers = {_number(job): job for job in ids}
        fields = "JobIDRaw,State,Start,End,NodeList,ExitCode"
        try:
            text = self._call(
                "sacct", *_cluster_option(cluster), "--noheader", "--parsable2", "--allocations",
                f"--jobs={','.join(numbers)}", f"--format={fields}",
            )  # fmt: skip
        except Unreachable as error:
            self._accounting_error = error
            return {}
        except InfraError:
            self._accounting = False
            return {}
        self._accounting_error = None
        found = {}
        for line in text.splitlines():
            number, name, start, end, nodes, code = line.split("|")
            if number in numbers:
                self._exit_queried.add(numbers[number])  # the controller does not have the exit code either
                found[numbers[number]] = _with_code(_state(name, start, end, nodes, ""), code)
        return found


def _state(name: str, start: str, end: str, nodes: str, reason: str) -> SlurmState:
    first = name.split(" ")[0].rstrip("+")
    reason = reason if reason not in ("None", "(null)") else ""
    by = name.partition(" ")[2]
    nodes = nodes if nodes not in ("(null)", "None assigned") else ""
    # A job that was cancelled while it was pending has its end as its start, but no nodes.
    started = _epoch(start) if nodes or first in PENDING else None
    return SlurmState(name=first, reason=reason or by, nodes=nodes, started=started, ended=_epoch(end))


def _with_code(state: SlurmState, text: str) -> SlurmState:
    """The state with its exit code; code 0 is ignored unless the job is COMPLETED."""
    code = _exit_code(text)
    return msgspec.structs.replace(state, exit_code=code if code or state.name == "COMPLETED" else None)


def _epoch(text: str) -> float | None:
    return float(text) if text.isdecimal() and len(text) <= DIGITS and text != "0" else None


def _exit_code(text: str) -> int | None:
    """Slurm's `code:signal` as a shell's exit code."""
    code, _, number = text.partition(":")
    if not code.isdecimal() or len(code) > DIGITS or len(number) > DIGITS:
        return None
    if not number.isdecimal() or number == "0":
        return int(code)
    return 128 + int(number) if int(number) < 65 else None  # Slurm's own codes (125: out of memory) are not signals


def _by_cluster(jobs: Iterable[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for job in sorted(jobs):
        groups.setdefault(job.partition(";")[2], []).append(job)
    return groups


def _batches(groups: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """The jobs of each cluster, in batches that fit on a command line."""
    for cluster, ids in groups.items():
        for first in range(0, len(ids), BATCH_SIZE):
            yield cluster, ids[first : first + BATCH_SIZE]


def _number(job_id: str) -> str:
    return job_id.partition(";")[0]


def _cluster_option(cluster: str) -> tuple[str, ...]:
    return (f"--clusters={cluster}",) if cluster else ()
