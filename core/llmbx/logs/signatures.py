"""Recognize failures that look alike in all frameworks: memory, communication, network, files, signals, exceptions.

The kinds of event (all fatal except `nccl_warning`):

- `out_of_memory` (`where`: gpu or host), `killed` (SIGKILL without a stated reason), `segfault`, `gpu_error`
- `nccl_error`, `nccl_warning`, `network_error` (adapter, socket, rendezvous), `peer_lost` (another rank died first)
- `import_error`, `cache_missing` (offline, and not in the cache), `gated`, `disk_full`, `file_error`, `port_in_use`
- `exception` (the last line of a traceback), `interrupted` (KeyboardInterrupt), `rank_exit` (a rank's exit code)
- `timeout`, `preempted`, `node_fail`, `cancelled`: reported by the scheduler

The last line of a traceback is classified first, so that a CUDA out-of-memory exception is `out_of_memory`.
"""

from __future__ import annotations

import re

from ..model import Event
from .lines import split_label
from .printed import whole

MAX_EVENTS = 32
"""Maximum number of events of one kind: a thousand ranks print the same failure a thousand times."""

MAX_TEXT = 500
"""Maximum length of an event's text, in characters."""

FINISHED = "finished"
"""Kind of the event that marks the end of the training loop; later failures have the fact `after` = "finished"."""

_TABLE: tuple[tuple[str, str], ...] = (
    ("network_error", r"\bibv_\w+.{0,40}failed|NET/IB.{0,40}(?:[Gg]ot completion|error)|socketPollConnect|UCX +ERROR"),
    ("network_error", r"exceeded error retry count"),
    (
        "network_error",
        r"connectFullMesh failed|failed to connect to all addresses|DEADLINE_EXCEEDED: Barrier timed out",
    ),
    ("network_error", r"(?:OPAL|PMIX) ERROR|PMIX_ERR|client socket has (?:timed out|failed)"),
    ("out_of_memory", r"(?i:\b(?:cuda|hip)\b.{0,30}out of memory)|Out of memory: Killed|: Out Of Memory\b"),
    ("out_of_memory", r"EXHAUSTED: Out of memory|OutOfMemoryError|\boom[-_]kill|OOM Killed"),
    ("out_of_memory", r"stepd\S{0,255}: error: .{0,300}[Ee]xceeded (?:job |step )?memory limit"),
    ("out_of_memory", r"could not create a primitive"),  # oneDNN, when an allocation fails in it
    ("out_of_memory", r"DefaultCPUAllocator: |\bMemoryError\b|std::bad_alloc|Cannot allocate memory"),
    ("peer_lost", r"Connection (?:closed|reset) by (?:remote )?peer|ncclRemoteError"),
    ("nccl_error", r"nccl(?:System|Internal|UnhandledCuda)Error|ncclInvalid\w+|\bNCCL error|DistBackendError"),
    ("nccl_error", r"NCCL communicator was aborted|[Ww]atchdog thread terminated with exception"),
    ("nccl_error", r"Watchdog caught collective operation timeout|NCCL operations have failed or timed out"),
    ("gated", r"GatedRepoError|\bgated repo|Access to model \S+ is restricted|401 Client Error.{0,500}huggingface"),
    ("cache_missing", r"find them in the cached files|requested files in the disk cache|LocalEntryNotFoundError"),
    ("cache_missing", r"Offline\w{1,40}IsEnabled|couldn't connect to 'https://huggingface"),
    ("import_error", r"^(?:ImportError|ModuleNotFoundError): "),
    ("gpu_error", r"\b(?:CUDA|HIP) error: |\bcudaError[A-Z]\w+|[Uu]ncorrectable ECC|NVRM: Xid"),
    ("gpu_error", r"\bCUDA_ERROR_[A-Z]+|illegal memory access was encountered|Memory access fault by GPU"),
    ("disk_full", r"No space left on device|[Dd]isk quota exceeded"),
    ("port_in_use", r"Address already in use|EADDRINUSE"),
    ("file_error", r"mkdir: cannot create directory|Read-only file system"),
    ("segfault", r"Segmentation fault|\bSIGSEGV\b"),
    ("segfault", r"Aborted \(core dumped\)|^Aborted$|: Aborted$|\bSIG(?:ABRT|BUS|ILL|FPE)\b|\bBus error\b"),
    ("segfault", r"Fatal Python error: |^terminate called "),
    ("timeout", r"DUE TO TIME LIMIT"),
    ("preempted", r"DUE TO PREEMPTION"),
    ("node_fail", r"DUE TO NODE FAIL|\bNODE_FAIL\b"),
    ("cancelled", r"(?:STEP|JOB) \S+ (?:ON \S+ )?CANCELLED"),
    ("killed", r"^Killed$|: Killed$|\d Killed(?:$|\s\s)|\bSIGKILL\b"),
    ("rank_exit", r"\btasks? [\d,-]+: Exited with exit code|\(exitcode: -?\d+\) local_rank: \d+"),
    ("nccl_warning", r"\bNCCL WARN\b"),
)

_HOST = re.compile(
    r"DefaultCPUAllocator|create a primitive|\bMemoryError|bad_alloc|Cannot allocate"
    r"|(?i:oom[-_ ]kill)|: Out Of|Killed pro|stepd"
)
_RANK = re.compile(r"\b[Rr]ank[ :]+(\d+)\b|\btask (\d+):|\blocal_rank: (\d+)")
_DEVICE = re.compile(r"\bhca (\w+)")
_EXIT = re.compile(r"exit ?code:? (-?\d+)")
_LAST = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: .*)?$")
_HARMLESS = ("Exception ignored in", "--- Logging error ---")
_IN_BETWEEN = ("During handling of the above", "The above exception was")
_MAX_TRACEBACK = 4000


class Signatures:
    """Finds failures in a stream of clean lines. Use one object per log and feed it every line."""

    def __init__(self) -> None:
        self._table = [(kind, re.compile(pattern)) for kind, pattern in _TABLE]
        self._seen: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._previous = ""
        self._finished = False

    def feed(self, line: str) -> list[Event]:
        """Return the events found in one line."""
        found = self._look(line) if self._open or _may_matter(line) else []
        self._previous = line
        return found

    def finished(self) -> None:
        """Mark the training loop as successfully finished: later failures happened after it."""
        self._finished = True

    def _look(self, line: str) -> list[Event]:
        label, rank, text = split_label(line)
        if "Traceback (most recent call last)" in text:
            if not any(sign in self._previous for sign in _HARMLESS):
                self._open[label] = 0
            return []
        if label in self._open:
            return self._traceback(label, rank, text)
        kind = self._classify(text)
        return self._event(kind, rank, text) if kind else []

    def _traceback(self, label: str, rank: int | None, text: str) -> list[Event]:
        self._open[label] += 1
        last = _LAST.match(text)
        if last is None and self._open[label] < _MAX_TRACEBACK and (text[:1].isspace() or not text):
            return []
        del self._open[label]
        if last is None or text.startswith(_IN_BETWEEN):
            return []
        kind = "interrupted" if last["type"] == "KeyboardInterrupt" else self._classify(text) or "exception"
        return self._event(kind, rank, text, exception=last["type"])

    def _classify(self, text: str) -> str | None:
        return next((kind for kind, pattern in self._table if pattern.search(text)), None)

    def _event(self, kind: str, rank: int | None, text: str, **facts: str | int | float) -> list[Event]:
        self._seen[kind] = self._seen.get(kind, 0) + 1
        if self._seen[kind] > MAX_EVENTS:
            return []
        if self._finished:
            facts["after"] = FINISHED
        facts |= _facts(kind, text)
        fatal = kind != "nccl_warning"
        return [Event(kind=kind, text=text.strip()[:MAX_TEXT], rank=_rank(rank, text), fatal=fatal, facts=facts)]


def _may_matter(line: str) -> bool:
    # Called for every line of a log. A chain of `in` is faster than one regular expression; a few words cover the
    # table, since most of the messages in it also contain "error".
    return (
        "rror" in line
        or "emory" in line
        or "illed" in line
        or "illegal" in line
        or "Traceback" in line
        or "NCCL WARN" in line
        or "imeout" in line
        or "ERR" in line
        or "SIG" in line
        or "fault" in line
        or "bort" in line
        or "terminate" in line
        or "Connection " in line
        or "bad_alloc" in line
        or "mkdir" in line
        or "Xid" in line
        or "exitcode" in line
    )


def _facts(kind: str, text: str) -> dict[str, str | int | float]:
    if kind == "out_of_memory":
        return {"where": "host" if _HOST.search(text) else "gpu"}
    if kind == "network_error" and (device := _DEVICE.search(text)):
        return {"device": device[1]}
    if kind == "rank_exit" and (code := _EXIT.search(text)):
        return {"exit_code": whole(code[1])}
    return {}


def _rank(rank: int | None, text: str) -> int | None:
    if rank is not None:
        return rank
    named = _RANK.search(text)
    return whole(next(filter(None, named.groups()))) if named else None
