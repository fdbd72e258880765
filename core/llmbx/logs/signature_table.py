"""The failures that look alike in all frameworks, as data: what a line says, and what it means for the run.

The first signature that matches a line is that of the line. Sources: the messages of PyTorch (c10d, ProcessGroupNCCL,
elastic), NCCL, JAX, CUDA, the Linux kernel (Xid: NVIDIA's catalog of Xid errors), and of
schedulers and container tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from .literals import Filter, skeleton_of
from .notices import NOTICES

Role = Literal["cause", "precursor", "contact", "watchdog", "end", "scheduler", "stopped", "detail", "notice"]
"""The role of a line in a failure.

- `cause`: a failure with a reason of its own.
- `precursor`: a fault of the hardware that the run may survive; if the run then fails without a cause, it is the cause.
- `contact`: a rank lost another one. It is an echo of the other's failure; without one, the network is the cause.
- `watchdog`: a rank waited too long for others, or was aborted because of it. Never the cause if there is another.
- `end`: a rank ended, by an exit code or a signal. It is the cause if nothing else of this rank comes before.
- `scheduler`: the scheduler ended the job, and says why.
- `stopped`: the launcher or the scheduler stops the other ranks. Always an echo.
- `detail`: belongs to another line, and says more than that.
- `notice`: says how the training ran (`notices`). Never a failure.
"""


BY = "by"
"""Fact of an event about other ranks: the rank that printed it."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A kind of event, and the pattern of its lines, which is compiled when it is first needed: few ever are.

    `elsewhere` is whether a retry on other nodes makes sense: None if that depends on when it happens.
    """

    kind: str
    role: Role
    pattern: str
    elsewhere: bool | None = False


def _noticed(role: Role) -> list[Signature]:
    """The signatures of the notices with this role."""
    notices = (notice for notice in NOTICES if notice.role == role)
    return [Signature(n.event, n.role, pattern, n.elsewhere) for n in notices for pattern in n.patterns]


_REPORT = r"\S{1,20} \d+ ?: {1,4}\d{1,9} \S.{2,60}?(?:\s\s|\()"

FATAL_XIDS = "48|61|62|63|64|74|79|92|94|95|110|119|120|121|136|140|143|155|156|158"

TABLE: tuple[Signature, ...] = (
    Signature("segfault", "end", r"^terminate called after throwing an instance of 'c10::|^\s*what\(\):  \[PG"),
    Signature("gpu_error", "cause", r"watchdog thread terminated with exception: CUDA error"),
    Signature(
        "segfault", "cause", r"^[\w./()-]{0,20}malloc\(\): |double free or corruption|free\(\): invalid|corrupted size"
    ),
    # an exception of another process that was raised again; what that process raised follows
    Signature("exception", "end", r"^\w+(?:Error|Exception): Caught \w+ in .{1,60} process \d+\.$"),
    Signature("exception", "end", r"\bProcess(?:Raised|Exited)Exception: *$"),
    # the last words of other languages
    Signature("exception", "cause", r"\bAssertion [`'].{1,300}[`'] failed"),
    Signature("exception", "cause", r"^(?:thread '.{1,80}' panicked at |panic: |Exception in thread \")"),
    Signature("exception", "cause", r"^F\d{4,8} .{0,80}\] Check failed"),
    # hardware
    Signature("gpu_error", "cause", rf"\bXid(?: \([^)]{{1,80}}\))?:? (?:{FATAL_XIDS})\b|[Ff]allen off the bus", True),
    Signature("gpu_error", "cause", r"[Uu]ncorrectable (?:ECC|NVLink)|ECC error encountered|NVLink error", True),
    Signature(
        "gpu_error",
        "cause",
        r"\bSXid\b.{0,40}(?:(?<!Non-)(?<!non-)[Ff]atal|\b2[0-9]{4})|GPU is lost|[Ee]rror 802\b|not yet initialized",
        True,
    ),
    Signature("gpu_error", "cause", r"\bZE_RESULT_ERROR_DEVICE_LOST\b", True),
    Signature("gpu_error", "cause", r"\bHSA_STATUS_ERROR_\w+|\bZE_RESULT_ERROR_\w+"),
    *_noticed("precursor"),
    # memory
    Signature("out_of_memory", "cause", r"\boom[-_]kill|OOM Killed|[Oo]ut of memory: Killed|: Out Of Memory\b"),
    Signature("out_of_memory", "cause", r"stepd\S{0,255}: error: .{0,300}[Ee]xceeded (?:job |step )?memory limit"),
    Signature("out_of_memory", "cause", r"[Jj]ob killed\b.{0,40}\bv?mem(?:ory)?\b.{0,40}\b(?:limit|exceeded)"),
    Signature(
        "out_of_memory",
        "cause",
        r"\b(?:[Cc][Uu][Dd][Aa]|[Hh][Ii][Pp])\b.{0,30}[Oo]ut of memory|CUBLAS_STATUS_ALLOC_FAILED",
    ),
    Signature("out_of_memory", "cause", r"EXHAUSTED: Out of memory|OutOfMemoryError"),
    Signature("out_of_memory", "cause", r"could not create a primitive"),  # oneDNN, when an allocation fails in it
    # what a rank prints if it is stopped, or waits for another one; before the signatures whose words it quotes
    Signature("nccl_error", "watchdog", r"Watchdog caught collective operation timeout|failure detected by watchdog"),
    Signature("nccl_error", "watchdog", r"NCCL operations have failed or timed out|Timeout at NCCL work"),
    Signature("nccl_error", "watchdog", r"NCCL communicator was aborted|[Ww]atchdog thread terminated with exception"),
    Signature("nccl_lagging", "watchdog", r"\[\d{1,7}\] finished collective #\d+, but didn't join collective"),
    Signature(
        "nccl_lagging", "watchdog", r"\[\d{1,7}(?:, \d{1,7}){0,4000}\] (?:joined but didn't finish|didn't join) coll"
    ),
    Signature("nccl_lagging", "watchdog", r"Rank \d{1,7} failed to pass monitoredBarrier"),
    Signature("nccl_lagging", "watchdog", r"(?:unhealthy|heartbeat|did not reach|timed out).{0,300}/task:\d{1,7}"),
    Signature("nccl_lagging", "watchdog", r"^\s*/job:\S{1,80}/task:\d{1,7}"),
    Signature("peer_lost", "watchdog", r"Timed out waiting \d+ms for \w+ operation|timeout caused pair closure"),
    Signature("peer_lost", "contact", r"successfully reached monitoredBarrier, but received errors"),
    Signature("stopped", "stopped", r"ChildFailedError|SignalException|SIGTERMException|got signal: (?:2|15)\b"),
    Signature(
        "peer_lost", "contact", r"recvValue failed|sendBytes failed|TCPStore.{0,200}(?:reset|[Bb]roken pipe|shut down)"
    ),
    Signature(
        "peer_lost", "contact", r"should dump\W{1,3}flag on TCPStore|another task died|stopped sending heartbeats"
    ),
    Signature(
        "peer_lost", "contact", r"remote process exited or there was a network error|JAX distributed service detected"
    ),
    Signature("exception", "contact", r"\bCheckpointException ranks:"),  # of every rank, if one cannot save its part
    Signature("peer_lost", "contact", r"[Cc]onnection (?:closed|reset) by (?:remote )?peer|ncclRemoteError"),
    Signature("peer_lost", "contact", r"^(?:ConnectionResetError|BrokenPipeError|ConnectionAbortedError|EOFError)\b"),
    Signature("peer_lost", "contact", r"[Tt]imed out after .{1,40} waiting for clients|wait timeout after \d+ms", None),
    # network
    Signature("network_error", "cause", r"Error configuring interconnect|Task launch for \S+ failed on node", True),
    Signature("network_error", "contact", r"\bibv_\w+.{0,40}failed|NET/IB.{0,40}(?:[Gg]ot completion|error)", None),
    Signature("network_error", "contact", r"socketPollConnect|Connect to \S+ failed|UCX +ERROR", None),
    Signature("network_error", "contact", r"exceeded error retry count|IBV_WC_\w{1,40}_ERR", None),
    Signature("network_error", "contact", r"connectFullMesh failed|failed to connect to all addresses", None),
    Signature("network_error", "contact", r"DEADLINE_EXCEEDED: Barrier timed out", None),
    Signature("network_error", "contact", r"client socket has (?:timed out|failed)", None),
    Signature("network_error", "contact", r"(?<!::)(?:DistNetworkError|DistStoreError)", None),
    Signature("network_error", "contact", r"(?:OPAL|PMIX) ERROR|PMIX_ERR", None),
    # NCCL and CUDA
    Signature("nccl_misuse", "cause", r"Duplicate GPU detected|ncclInvalid(?:Argument|Usage)|invalid usage \(run with"),
    Signature("nccl_error", "cause", r"nccl(?:System|Internal|UnhandledCuda)Error|\bNCCL error|NCCL operation", None),
    Signature("nccl_error", "cause", r"DistBackendError|ncclInvalid\w+", None),
    # files, packages, accounts; before what the host's memory prints, since the errors of files name it too
    Signature("disk_full", "cause", r"No space left on device|[Dd]isk quota exceeded|Errno 122\b"),
    Signature("gated", "cause", r"GatedRepoError|\bgated repo|Access to model \S+ is restricted"),
    Signature("gated", "cause", r"40[13] Client Error|RepositoryNotFoundError"),
    Signature("cache_missing", "cause", r"find them in the cached files|requested files in the disk cache"),
    Signature("cache_missing", "cause", r"LocalEntryNotFoundError|Offline\w{1,40}IsEnabled"),
    Signature("cache_missing", "cause", r"couldn't connect to 'https://huggingface"),
    Signature("import_error", "cause", r"^(?:ImportError|ModuleNotFoundError): |undefined symbol: "),
    Signature("port_in_use", "cause", r"Address already in use|EADDRINUSE", None),
    Signature("file_error", "cause", r"mkdir: cannot create directory|Read-only file system"),
    # how a container failed; what a tool quotes of another one's log says why (see `signatures`)
    Signature("container_error", "cause", r"Error response from daemon: |^FATAL: {1,4}\S|OCI runtime \w+ failed"),
    Signature(
        "container_error", "cause", r"ErrImagePull|ImagePullBackOff|[Ff]ailed to pull image|[Ee]xec format error"
    ),
    Signature("scheduler_error", "cause", r"error: (?:Unable to (?:create step|allocate)|Batch job submission failed)"),
    Signature("scheduler_error", "cause", r"[Ii]nvalid generic resource"),
    Signature("network_error", "cause", r"timeout waiting for task launch", None),
    Signature(
        "file_error", "cause", r": command not found$|can't open file '|execve\(\): |has detected the following error"
    ),
    Signature("out_of_memory", "cause", r"\bOOMKilled\b"),
    Signature(
        "node_fail",
        "scheduler",
        r"\bNodeNotReady\b|[Nn]ode \S{1,80} (?:is )?not ready|low on resource|\bEvicted\b",
        True,
    ),
    Signature("preempted", "scheduler", r"[Ss]pot.{0,60}[Ii]nterruption|instance-action.{0,40}terminate", True),
    Signature("container_error", "cause", r"nvidia-container-cli: .{0,200}error|401 Unauthorized"),
    Signature(
        "container_error", "cause", r"failed to import \w+ image|couldn't start container|container start failed"
    ),
    Signature(
        "usage_error", "cause", r"^[\w./-]{1,100}: error: (?:unrecognized arguments|the following arguments|argument )"
    ),
    Signature("out_of_memory", "cause", r"DefaultCPUAllocator: |\bMemoryError\b|std::bad_alloc|Cannot allocate memory"),
    Signature("shared_memory", "cause", r"insufficient shared memory|out of shared memory"),
    Signature("gpu_error", "cause", r"\b(?:CUDA|HIP) error: |\bcudaError[A-Z]\w+|\bCUDA_ERROR_[A-Z]+"),
    Signature("gpu_error", "cause", r"illegal memory access was encountered|Memory access fault by GPU"),
    Signature("gpu_error", "cause", r"cudaGetDeviceCount|No CUDA GPUs are available|driver/library version mismatch"),
    # the scheduler
    Signature("timeout", "scheduler", r"DUE TO TIME LIMIT"),
    Signature(
        "timeout",
        "scheduler",
        r"(?<!be )(?:killed|terminated)\b.{0,60}\b(?:wall-?|run )(?:time|clock)\b.{0,24}\blimit\b",
    ),
    Signature("preempted", "scheduler", r"DUE TO PREEMPTION", True),
    Signature("node_fail", "scheduler", r"DUE TO NODE FAIL|\bNODE_FAIL\b|\bNode failure on \S+", True),
    Signature("cancelled", "stopped", r"(?:STEP|JOB) \S+ (?:ON \S+ )?CANCELLED|sending Ctrl-C to "),
    Signature(
        "stopped", "stopped", r"tasks? [\d,-]+: Terminated|Terminating StepId|Job step aborted|closing signal SIG"
    ),
    # how a rank ended
    Signature("killed", "end", r"^Killed$|: Killed$|\d Killed(?:$|\s\s)|(?:[Ss]ignal:? |\()SIGKILL\b"),
    Signature("segfault", "end", r"Segmentation fault|\bSIGSEGV\b|exitcode\s*: -11\b"),
    Signature(
        "segfault", "end", r"Aborted \(core dumped\)|^Aborted$|: Aborted$|\bSIG(?:ABRT|BUS|ILL|FPE)\b|\bBus error\b"
    ),
    Signature("segfault", "end", r"Fatal Python error: |^terminate called "),
    Signature("rank_exit", "end", r"\btasks? [\d,-]+: Exited with exit code|\(exitcode: -?\d+\) local_rank: \d+"),
    Signature("killed", "end", r"process rank \d{1,7} with PID \d+ on node \S+ exited on signal 9|return code = -9\b"),
    Signature("rank_exit", "end", r"process rank \d{1,7} with PID \d+ on node \S+ exited on|return code = -11\b"),
    Signature(
        "rank_exit",
        "end",
        r"exits with return code = -?\d+|Process name: \[\[\d+,\d+\],\d+\]|MPI_ABORT was invoked on rank",
    ),
    Signature("rank_exit", "end", r"\b[Rr]ank:? \d{1,7}\b.{0,60}\b(?:died from|crashed with|failed and)\b"),
    Signature("rank_exit", "end", r"\b[Rr]ank:? \d{1,7}\b.{0,60}\b(?:exited|terminated) with code -?[1-9]"),
    Signature("rank_exit", "end", r"\brank \d{1,7}\) terminated with signal|^\S{1,80} exited with code [1-9]"),
    # a shell's report of a job, in any language: `job.sh: line 3:  4711 Aborted    python train.py`
    *(Signature("rank_exit", "end", f"{name}{_REPORT}") for name in ("sh: ", "sh : ", "script: ", "script : ")),
    Signature("rank_exit", "end", r"RANK \d{1,7} PID \d+ RUNNING AT \S+|BAD TERMINATION"),
    Signature("rank_exit", "end", r": error: \S{1,255}: tasks? [\d,-]+: [A-Z]"),
    Signature("rank_exit", "end", r"^\s*exitcode\s+: -?\d+"),
    Signature("rank_exit", "end", r": ssh exited with exit code \d+"),
    *_noticed("notice"),
    Signature("nccl_warning", "detail", r"\bNCCL WARN\b"),
)

EXPLAINED: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(line), re.compile(reason))
    for line, reason in (
        (r"unexpected pos \d|inline_container|PytorchStreamWriter", r"No space left|[Dd]isk quota"),
        (r"unknown error|unspecified launch failure|illegal memory access|CUDA error: ", r"Xid|fallen off|ECC|NVLink"),
        (
            r"^Killed$|: Killed$|\d Killed|SIGKILL|killed by signal|[Hh]eartbeat|task died",
            r"oom[-_]kill|OOM|[Oo]ut [Oo]f",
        ),
        (r"nccl\w{1,40}Error|NCCL error|NCCL operation", r"out of memory|Duplicate GPU"),
        (r"bus error|Bus error", r"shared memory"),
    )
)
"""Lines (left) that are the echo of a line that states the reason (right), even if they come before it."""


@cache
def table_filter() -> Filter:
    """The filter of the table, which takes some milliseconds to make."""
    return Filter(patterns())


def match(text: str) -> Signature | None:
    """The signature of a line's text; None if no signature matches."""
    candidates = (TABLE[place] for place in table_filter().places(skeleton_of(text)))
    return next((signature for signature in candidates if _compiled(signature.pattern).search(text)), None)


_compiled = cache(re.compile)


def patterns() -> Iterator[str]:
    """Every pattern of the table, for the test that none is slow."""
    for signature in TABLE:
        yield signature.pattern
