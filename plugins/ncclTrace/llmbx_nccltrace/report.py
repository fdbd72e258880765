"""The JSON records of `llmbx nccl`, in order of appearance. Sizes are in bytes."""

from __future__ import annotations

from llmbx.api import Failure, Value


class Operation(Value, frozen=True):
    """Calls of one kind and size. `calls` counts log lines, one per rank.

    `message_bytes` is the size of the whole message: count x element size, x nranks for AllGather, ReduceScatter,
    AlltoAll, Gather and Scatter.
    `count` is null for calls beyond the maximum number of distinct sizes.
    """

    op: str
    datatype: str
    nranks: int
    count: int | None
    message_bytes: int | None
    calls: int


class Total(Value, frozen=True):
    """All calls of one operation: total message bytes, and the bytes that ranks moved over their links.

    `bus_bytes` follows the bus bandwidth of nccl-tests: message bytes x 2(n-1)/n for AllReduce, x (n-1)/n for
    AllGather, ReduceScatter, AlltoAll, Gather and Scatter. Null if a size or the factor is unknown.
    """

    op: str
    calls: int
    message_bytes: int | None
    bus_bytes: float | None


class Sizes(Value, frozen=True):
    """One bin of the histogram: calls with a message of [`from_bytes`, `to_bytes`) bytes."""

    from_bytes: int
    to_bytes: int
    calls: int
    message_bytes: int


class Communicator(Value, frozen=True):
    """One communicator over all its processes. `ranks_seen` of its `nranks` ranks are in the logs.

    `id` is NCCL's commId. A split communicator has none and is named after its parent, split number and color.
    """

    id: str
    nranks: int
    ranks_seen: int
    hosts: tuple[str, ...]
    calls: int
    message_bytes: int
    operations: dict[str, int] = {}


class Rank(Value, frozen=True):
    """One process with its calls. `rank` is its rank in the run, from INIT lines or a label; null if unknown."""

    rank: int | None
    host: str | None
    pid: int | None
    calls: int
    message_bytes: int


class Transport(Value, frozen=True):
    """The transport between ranks.

    `verdict` is IB, RoCE, IB+RoCE, EFA, NVLink/P2P, XGMI/P2P, P2P over PCIe, SHM, Socket, or the name of a network
    plugin. `fallback` is true if a slow transport (Socket or SHM) is used. `evidence` lists the log lines that show the
    transport. `channels` counts connections by transport.
    """

    verdict: str
    fallback: bool
    evidence: tuple[str, ...] = ()
    channels: dict[str, int] = {}


class Choice(Value, frozen=True):
    """An algorithm and protocol chosen by NCCL, with the range of message bytes (TUNING lines of each rank 0)."""

    op: str | None
    algorithm: str
    protocol: str
    calls: int
    from_bytes: int
    to_bytes: int


class StepCalls(Value, frozen=True):
    """The calls of all ranks that were logged between the line of the previous step and the line of this step."""

    step: int
    calls: int
    message_bytes: int


class Lag(Value, frozen=True):
    """A rank that called a collective less often than a peer, which may explain a hang.

    `rank` is its rank in the communicator, `global_rank` its rank in the run. `calls` is its number of calls, `peers`
    the largest number of calls of any rank.
    """

    communicator: str | None
    nranks: int
    op: str
    rank: int | None
    global_rank: int | None
    host: str | None
    pid: int | None
    calls: int
    peers: int


class Mismatch(Value, frozen=True):
    """Ranks that made another call than most ranks at the same place of a communicator.

    `kind` is collective (another operation or root) or count (another count or data type). `majority` is null if no
    call was made by most ranks; then each call has its own mismatch. `ranks` are those in the run, null if unknown.
    """

    communicator: str | None
    op_count: int | None
    ranks: tuple[int | None, ...]
    collective: str
    majority: str | None
    kind: str


class Stop(Value, frozen=True):
    """Ranks without a call after `op_count` (null: without any), while a peer is at `peers_op_count`."""

    ranks: tuple[int | None, ...]
    processes: tuple[str, ...]
    op_count: int | None
    peers_op_count: int | None


class CallsAt(Value, frozen=True):
    """The ranks that made one call, with their host and process id."""

    op_count: int | None
    op: str
    datatype: str
    count: int
    root: int
    ranks: tuple[int | None, ...]
    processes: tuple[str, ...]


class Divergence(Value, frozen=True):
    """A communicator whose ranks do not make the same calls: the last common one and those that follow.

    `last_common_op_count` is null if the first calls differ or no earlier call was read.
    """

    communicator: str | None
    nranks: int
    last_common_op_count: int | None
    mismatches: tuple[Mismatch, ...]
    stopped: tuple[Stop, ...]
    calls: tuple[CallsAt, ...]


class Problem(Value, frozen=True):
    """A WARN line of NCCL, or an error of the framework's watchdog, with its process. `rank` is the global rank."""

    text: str
    times: int
    rank: int | None
    host: str | None
    pid: int | None


class Report(Value, frozen=True):
    """The whole report. Fields are null if the logs lack the lines that they are computed from.

    `lines` counts all lines, `calls` the records of collectives, `cut` damaged records that were not counted.
    """

    files: tuple[str, ...]
    lines: int
    calls: int
    cut: int
    versions: tuple[str, ...]
    operations: tuple[Operation, ...]
    totals: tuple[Total, ...]
    sizes: tuple[Sizes, ...]
    ranks: tuple[Rank, ...]
    communicators: tuple[Communicator, ...] | None
    transport: Transport | None
    tuning: tuple[Choice, ...] | None
    steps: tuple[StepCalls, ...] | None
    lagging: tuple[Lag, ...] | None
    errors: tuple[Problem, ...]
    warnings: tuple[str, ...]
    mismatches: tuple[Mismatch, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    failed: Failure | None = None
