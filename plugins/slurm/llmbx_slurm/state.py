"""Query the state of Slurm jobs: one squeue for all watched jobs, and sacct for those that it no longer has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from llmbx.api import InfraError, Unreachable

from .commands import call

REFRESH_S, QUIET_S = 2.0, 60.0
"""Maximum age of a cached state in seconds: after a change, and while nothing changes."""

GROWTH = 1.5
"""The maximum age grows by this factor with each answer that has no change."""

BATCH_SIZE = 2000
"""Maximum number of jobs in one query: a command argument is limited to 128 KiB (`MAX_ARG_STRLEN` of Linux)."""

BACKOFF_S = 10.0
"""Pause in seconds after the first query that failed; a command takes about as long to time out."""

NO_ACCOUNTS = ("accounting storage is disabled", "is not on PATH")
"""What sacct's errors say where there is no accounting; after any other error it is queried again."""

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

STATES = PENDING | RUNNING | {*VERDICTS, "COMPLETED", "FAILED", "REVOKED", "RECONFIG_FAIL"}

NOT_OPENED = "0:53"
"""`ExitCode` of a job whose standard output could not be opened on its first node, so that its script did not start."""


class SlurmState(msgspec.Struct, frozen=True):
    """The state of one job as Slurm reports it; times in epoch seconds, `exit_code` as a shell reports it."""

    name: str
    reason: str = ""
    nodes: str = ""
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    not_opened: bool = False
    """Whether the first node could not open the job's output."""
    host: str = ""
    """The first node, which runs the script."""

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
        self._states: dict[str, SlurmState] = {}
        self._exit_queried: set[str] = set()
        self._missing_since: dict[str, float] = {}
        self._refreshed_at = float("-inf")
        self._fresh_s = REFRESH_S
        self._accounting = True
        self._unreachable: Unreachable | None = None
        self._accounting_error: Unreachable | None = None

    def state(self, job_id: str) -> SlurmState | None:
        """The job's state; None if Slurm does not know the job any more.

        It is at most `REFRESH_S` seconds old after a change of any job's state, up to `QUIET_S` while there is none.
        Raises `Unreachable` if squeue fails, or sacct for a job that is no longer in the queue.
        """
        last = self._states.get(job_id)
        if last is not None and not last.live:
            return last
        age = self._now() - self._refreshed_at
        if self._unreachable is not None and age < self._fresh_s:
            raise self._unreachable
        if job_id not in self._watched or job_id in self._unseen or age >= self._fresh_s:
            self._watched.add(job_id)
            self._refresh()
        if job_id not in self._states and self._accounting_error is not None:
            raise self._accounting_error
        return self._states.get(job_id)

    def watch(self, job_ids: Iterable[str]) -> None:
        """Include these jobs in the next query."""
        new = {job for job in job_ids if job not in self._states and job not in self._watched}
        self._watched |= new
        self._unseen |= new

    def missing_s(self, job_id: str) -> float:
        """For how many seconds a job that this process saw has been unknown to Slurm; infinite if it never saw it."""
        return self._now() - self._missing_since.get(job_id, float("-inf"))

    def hurry(self) -> None:
        """Query the states again as soon as they are `REFRESH_S` seconds old: something has happened to a job."""
        if self._unreachable is None:
            self._fresh_s = REFRESH_S

    def with_exit(self, job_id: str) -> SlurmState | None:
        """The state of an ended job with its exit code from the controller; needs one query for each job.

        Raises `Unreachable` if the controller does not respond.
        """
        last = self._states.get(job_id)
        if last is None or last.live or last.exit_code is not None or job_id in self._exit_queried:
            return last
        self._states[job_id] = self._query_exit(job_id.partition(";")[2], _number(job_id), last)
        self._exit_queried.add(job_id)
        return self._states[job_id]

    def _refresh(self) -> None:
        before = {job: self._states[job].name for job in self._watched if job in self._states}
        for cluster, ids in _batches(_by_cluster(self._watched)):
            states = self._query(cluster, ids)
            states |= self._query_accounting(cluster, [job for job in ids if job not in states])
            for job in ids:
                if job in states:
                    self._states[job] = states[job]
                    self._missing_since.pop(job, None)
                elif self._states.pop(job, None) is not None:
                    self._missing_since[job] = self._now()
        after = {job: self._states[job].name for job in self._watched if job in self._states}
        self._fresh_s = min(QUIET_S, self._fresh_s * GROWTH) if before == after else REFRESH_S
        self._refreshed_at = self._now()
        self._unseen.clear()
        self._watched = {job for job in self._watched if job not in self._states or self._states[job].live}

    def _query(self, cluster: str, ids: Iterable[str]) -> dict[str, SlurmState]:
        try:
            states = self._query_queue(cluster, ids)
        except Unreachable as error:
            longer = self._fresh_s * GROWTH if self._unreachable is not None else BACKOFF_S
            self._unreachable, self._refreshed_at, self._fresh_s = error, self._now(), min(QUIET_S, longer)
            raise
        if self._unreachable is not None:
            self._unreachable, self._fresh_s = None, REFRESH_S
        return states

    def _query_queue(self, cluster: str, ids: Iterable[str]) -> dict[str, SlurmState]:
        """States by job from squeue; jobs that the controller does not know are missing.

        Raises `Unreachable` for every failure, as none of them ends a job.
        """
        numbers = {_number(job): job for job in ids}
        arguments = ("--noheader", "--states=all", f"--jobs={','.join(numbers)}", "--format=%i|%T|%S|%e|%N|%r")
        try:
            text = self._call("squeue", *_cluster_option(cluster), *arguments)
        except InfraError as error:
            if "Invalid job id" in str(error):
                return {}
            raise _unreachable(error) from error
        return {job: _state(*fields) for job, fields in _rows(text, numbers, "squeue", 6).items()}

    def _query_exit(self, cluster: str, number: str, state: SlurmState) -> SlurmState:
        try:
            text = self._call("scontrol", *_cluster_option(cluster), "--oneliner", "show", "job", number)
        except Unreachable:
            raise
        except InfraError:
            return state
        fields = dict(part.partition("=")[::2] for part in reversed(text.split()))  # the first of a name counts
        state = _with_code(state, fields.get("ExitCode", ""))
        return msgspec.structs.replace(state, host=fields.get("BatchHost", state.host))

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
            rows = _rows(text, numbers, "sacct", 6)
        except InfraError as error:
            self._accounting = not any(words in str(error) for words in NO_ACCOUNTS)
            self._accounting_error = _unreachable(error) if self._accounting else None
            return {}
        self._accounting_error = None
        self._exit_queried |= rows.keys()  # the controller does not have the exit code either
        return {
            job: _with_code(_state(name, start, end, nodes, ""), code)
            for job, (name, start, end, nodes, code) in rows.items()
        }


def _unreachable(error: InfraError) -> Unreachable:
    return error if isinstance(error, Unreachable) else Unreachable(str(error))


def _rows(text: str, numbers: Mapping[str, str], command: str, columns: int) -> dict[str, list[str]]:
    """The columns after the number, by job, of the lines about these jobs.

    Raises `Unreachable` if jobs are missing and the output has lines that are not about a job: it may be damaged.
    """
    rows, unexpected = {}, ""
    for line in text.splitlines():
        fields = line.split("|", columns - 1)
        if len(fields) < columns or not _is_state(fields[1]):
            unexpected = unexpected or ("" if line.startswith("CLUSTER: ") else line)
        elif fields[0] in numbers:
            rows[numbers[fields[0]]] = fields[1:]
    if unexpected.strip() and len(rows) < len(numbers):
        raise Unreachable(f"{command} printed something else than the states of jobs: {unexpected[:60]!a}")
    return rows


def _is_state(text: str) -> bool:
    return text.split(" ")[0].rstrip("+") in STATES


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
    if state.name == "FAILED" and text == NOT_OPENED:
        return msgspec.structs.replace(state, not_opened=True)
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
