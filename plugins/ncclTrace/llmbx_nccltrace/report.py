"""What `llmbx nccl` says of a trace: the records of its JSON, in this order. Bytes are whole numbers of bytes."""

from __future__ import annotations

from llmbx.model import Value


class Operation(Value, frozen=True):
    """Calls of one kind and size. `calls` counts log lines, one per rank.

    `message_bytes` is the size of the whole message: count x element, x nranks for AllGather and ReduceScatter. `count`
    is null for sizes beyond those that are kept apart.
    """

    op: str
    datatype: str
    nranks: int
    count: int | None
    message_bytes: int | None
    calls: int


class Total(Value, frozen=True):
    """All calls of one operation: the sum of their messages, and what the ranks moved over their links for them.

    `bus_bytes` follows nccl-tests' bus bandwidth: an AllReduce's message counts 2(n-1)/n times, an AllGather's and a
    ReduceScatter's (n-1)/n times. Null where a size or the convention is unknown.
    """

    op: str
    calls: int
    message_bytes: int | None
    bus_bytes: float | None


class Sizes(Value, frozen=True):
    """Calls whose message has `from_bytes` or more and less than `to_bytes`: one bar of the histogram."""

    from_bytes: int
    to_bytes: int
    calls: int
    message_bytes: int


class Communicator(Value, frozen=True):
    """One communicator over all its processes. `ranks_seen` of its `nranks` ranks are in the logs.

    `id` is NCCL's commId; a split communicator, which has none, is named after its parent, split and color.
    """

    id: str
    nranks: int
    ranks_seen: int
    hosts: tuple[str, ...]
    calls: int
    message_bytes: int
    operations: dict[str, int] = {}


class Rank(Value, frozen=True):
    """One process: its rank in the run where INIT lines or a label tell, and what it called."""

    rank: int | None
    host: str | None
    pid: int | None
    calls: int
    message_bytes: int


class Transport(Value, frozen=True):
    """Over what the ranks talk. `verdict`: IB, RoCE, IB+RoCE, EFA, NVLink/P2P, SHM, Socket, or a network plugin's name.

    `fallback`: the data goes a slow way that nobody asked for. `evidence` says which lines show it. `channels` counts
    connections by transport.
    """

    verdict: str
    fallback: bool
    evidence: tuple[str, ...] = ()
    channels: dict[str, int] = {}


class Choice(Value, frozen=True):
    """An algorithm and protocol that NCCL chose, and for which bytes (TUNING lines, of each communicator's rank 0)."""

    op: str | None
    algorithm: str
    protocol: str
    calls: int
    from_bytes: int
    to_bytes: int


class StepCalls(Value, frozen=True):
    """What was logged between the line of the step before and the line of this step, by all ranks together."""

    step: int
    calls: int
    message_bytes: int


class Lag(Value, frozen=True):
    """A rank that called a collective less often than a peer: the suspect of a hang. `rank` is the communicator's."""

    communicator: str | None
    nranks: int
    op: str
    rank: int | None
    global_rank: int | None
    host: str | None
    pid: int | None
    calls: int
    peers: int


class Problem(Value, frozen=True):
    """An NCCL WARN line, or a watchdog's: how often, and who printed it. `rank` is the global one."""

    text: str
    times: int
    rank: int | None
    host: str | None
    pid: int | None


class Report(Value, frozen=True):
    """Everything the logs show. Null: the lines that would tell are not there.

    `lines` counts all lines, `calls` those of collectives, `cut` collectives' lines that were damaged and not counted.
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
