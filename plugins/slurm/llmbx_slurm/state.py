"""How Slurm jobs stand: the queue is asked for all watched jobs at once, accounting for those that it has forgotten."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from llmbx.errors import InfraError
from llmbx.launchers.base import Unreachable

from .tools import call

REFRESH_S = 2.0
"""How old an answer may be before Slurm is asked again."""

PORTION = 2000
"""How many jobs one question asks for: one argument of a command is at most 128 KiB (`MAX_ARG_STRLEN` of Linux)."""

SILENCE_S = 10.0
"""How long a controller that did not answer is left alone: a command takes as long to give up."""

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
"""States that Slurm knows for sure, by the status of `result.json`; COMPLETED and FAILED leave it to the data."""


class SlurmState(msgspec.Struct, frozen=True):
    """One job in Slurm's own words; times in epoch seconds, `exit_code` as a shell would see it."""

    word: str
    reason: str = ""
    nodes: str = ""
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None

    @property
    def live(self) -> bool:
        """Whether the job has still to run or is running."""
        return self.word in PENDING or self.word in RUNNING


class Queue:
    """The jobs that this process watches, with the newest answers."""

    def __init__(self, command: Callable[..., str] = call, now: Callable[[], float] = time.monotonic) -> None:
        self._call = command
        self._now = now
        self._watched: set[str] = set()
        self._unseen: set[str] = set()
        self._known: dict[str, SlurmState] = {}
        self._coded: set[str] = set()
        self._asked = float("-inf")
        self._accounting = True
        self._silence: Unreachable | None = None
        self._unaccounted: Unreachable | None = None

    def look(self, job_id: str) -> SlurmState | None:
        """The job's state, at most `REFRESH_S` old; None when Slurm knows it no more.

        Raises `Unreachable`, also where accounting does not answer for a job that the controller has forgotten.
        """
        known = self._known.get(job_id)
        if known is not None and not known.live:
            return known
        age = self._now() - self._asked
        if self._silence is not None and age < SILENCE_S:
            raise self._silence
        if job_id not in self._watched or job_id in self._unseen or age >= REFRESH_S:
            self._watched.add(job_id)
            self._refresh()
        if job_id not in self._known and self._unaccounted is not None:
            raise self._unaccounted
        return self._known.get(job_id)

    def watch(self, job_ids: Iterable[str]) -> None:
        """Have the next question ask for these jobs too."""
        new = {job for job in job_ids if job not in self._known and job not in self._watched}
        self._watched |= new
        self._unseen |= new

    def with_exit(self, job_id: str) -> SlurmState | None:
        """What is known of an ended job, with the exit code that the controller remembers: one question for each."""
        known = self._known.get(job_id)
        if known is None or known.live or known.exit_code is not None or job_id in self._coded:
            return known
        self._coded.add(job_id)
        self._known[job_id] = self._with_exit(job_id.partition(";")[2], _number(job_id), known)
        return self._known[job_id]

    def last(self, job_id: str) -> SlurmState | None:
        """What was known of the job when Slurm last answered."""
        return self._known.get(job_id)

    def _refresh(self) -> None:
        for cluster, ids in _portions(_by_cluster(self._watched)):
            found = self._ask(cluster, ids)
            found |= self._accounts(cluster, [job for job in ids if job not in found])
            for job in ids:
                if job in found:
                    self._known[job] = found[job]
                elif job in self._known:
                    del self._known[job]
        self._asked = self._now()
        self._unseen.clear()
        self._watched = {job for job in self._watched if job not in self._known or self._known[job].live}

    def _ask(self, cluster: str, ids: Iterable[str]) -> dict[str, SlurmState]:
        try:
            found = self._queue(cluster, ids)
        except Unreachable as error:
            self._silence, self._asked = error, self._now()
            raise
        self._silence = None
        return found

    def _queue(self, cluster: str, ids: Iterable[str]) -> dict[str, SlurmState]:
        """What the controller remembers."""
        numbers = {_number(job): job for job in ids}
        arguments = ("--noheader", "--states=all", f"--jobs={','.join(numbers)}", "--format=%i|%T|%S|%e|%N|%r")
        try:
            text = self._call("squeue", *_at(cluster), *arguments)
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

    def _with_exit(self, cluster: str, number: str, state: SlurmState) -> SlurmState:
        try:
            text = self._call("scontrol", *_at(cluster), "--oneliner", "show", "job", number)
        except InfraError:
            return state
        codes = [word.partition("=")[2] for word in text.split() if word.startswith("ExitCode=")]
        return _with_code(state, codes[0]) if codes else state

    def _accounts(self, cluster: str, ids: list[str]) -> dict[str, SlurmState]:
        """What accounting remembers of jobs that the controller has forgotten; nothing where there is none."""
        if not ids or not self._accounting:
            return {}
        numbers = {_number(job): job for job in ids}
        fields = "JobIDRaw,State,Start,End,NodeList,ExitCode"
        try:
            text = self._call(
                "sacct", *_at(cluster), "--noheader", "--parsable2", "--allocations",
                f"--jobs={','.join(numbers)}", f"--format={fields}",
            )  # fmt: skip
        except Unreachable as error:
            self._unaccounted = error
            return {}
        except InfraError:
            self._accounting = False
            return {}
        self._unaccounted = None
        found = {}
        for line in text.splitlines():
            number, word, start, end, nodes, code = line.split("|")
            if number in numbers:
                self._coded.add(numbers[number])  # the controller knows no more
                found[numbers[number]] = _with_code(_state(word, start, end, nodes, ""), code)
        return found


def _state(word: str, start: str, end: str, nodes: str, reason: str) -> SlurmState:
    first = word.split(" ")[0].rstrip("+")
    reason = reason if reason not in ("None", "(null)") else ""
    by = word.partition(" ")[2]
    return SlurmState(
        word=first, reason=reason or by, nodes=nodes.replace("(null)", ""), started=_epoch(start), ended=_epoch(end)
    )


def _with_code(state: SlurmState, text: str) -> SlurmState:
    """The state with its exit code; a job that did not complete has no code 0, whatever is printed."""
    code = _exit_code(text)
    return msgspec.structs.replace(state, exit_code=code if code or state.word == "COMPLETED" else None)


def _epoch(text: str) -> float | None:
    return float(text) if text.isdigit() and text != "0" else None


def _exit_code(text: str) -> int | None:
    """Slurm's `code:signal` as a shell says it."""
    code, _, number = text.partition(":")
    if not code.isdigit():
        return None
    if not number.isdigit() or number == "0":
        return int(code)
    return 128 + int(number) if int(number) < 65 else None  # Slurm's own marks (out of memory: 125) are no signals


def _by_cluster(jobs: Iterable[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for job in sorted(jobs):
        groups.setdefault(job.partition(";")[2], []).append(job)
    return groups


def _portions(groups: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """The jobs of each cluster, so many at a time that a command line can hold them."""
    for cluster, ids in groups.items():
        for first in range(0, len(ids), PORTION):
            yield cluster, ids[first : first + PORTION]


def _number(job_id: str) -> str:
    return job_id.partition(";")[0]


def _at(cluster: str) -> tuple[str, ...]:
    return (f"--clusters={cluster}",) if cluster else ()
