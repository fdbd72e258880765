"""Counts collected from one chunk of an NCCL log; the counts of consecutive chunks can be added up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .definitions import message_bytes

MAX_SIZES = 100_000
"""Maximum number of distinct (operation, datatype, ranks, count) keys; further calls are counted with count None."""

MAX_FRAMEWORK_LINES = 50_000
MAX_ERRORS = 1_000

Size = tuple[str, int, int, int | None]
"""Operation, `ncclDataType_t`, ranks, elements (None beyond `MAX_SIZES`)."""

Caller = tuple[bytes, int, int]
"""Process (see `grammar.Message`), address of the communicator in that process, and number of its ranks."""


@dataclass(slots=True)
class Init:
    """An `Init COMPLETE` line. `identity` is the communicator's name in all processes; None if its parent is unknown.

    A split communicator has `parent` and `branch` (split number and color) instead, until `identity` is resolved.
    """

    rank: int
    ranks: int
    device: int
    identity: str | None
    parent: int | None = None
    branch: str = ""


@dataclass(slots=True)
class Epoch:
    """The calls of one process on one communicator. A new epoch begins when the address is reused."""

    init: Init | None = None
    volume: int = 0
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, later: Epoch) -> None:
        """Add the later calls of the same communicator."""
        self.volume += later.volume
        self.calls.update(later.calls)


@dataclass(slots=True)
class FrameworkLine:
    """A line not written by NCCL, with the number of calls and message bytes logged before it."""

    text: str
    calls: int
    volume: int


@dataclass(slots=True)
class LogCounts:
    """All counts of one chunk. `volume` is the size of all messages in bytes.

    `cut` counts truncated records by process, `opened` maps each address to its latest communicator, `channels` counts
    connections by transport, `facts` counts texts by topic, `users` maps a transport or fact to the processes that
    logged it, and `tuning` counts choices by operation, algorithm, protocol and bytes.
    """

    lines: int = 0
    calls: int = 0
    volume: int = 0
    long_lines: int = 0
    cut_lines: int = 0
    nodes: int = 0
    sizes: Counter[Size] = field(default_factory=Counter)
    callers: dict[Caller, list[Epoch]] = field(default_factory=dict)
    opened: dict[tuple[bytes, int], Init] = field(default_factory=dict)
    cut: Counter[bytes] = field(default_factory=Counter)
    framework_lines: list[FrameworkLine] = field(default_factory=list)
    framework_lines_dropped: int = 0
    channels: Counter[str] = field(default_factory=Counter)
    users: dict[str, set[bytes]] = field(default_factory=dict)
    facts: dict[str, Counter[str]] = field(default_factory=dict)
    tuning: Counter[tuple[str | None, str, str, int]] = field(default_factory=Counter)
    errors: Counter[tuple[bytes, str]] = field(default_factory=Counter)
    errors_dropped: int = 0

    def add_calls(self, operation: str, datatype: int, ranks: int, count: int | None, calls: int) -> None:
        """Add calls of one kind and size."""
        size = (operation, datatype, ranks, count)
        if size not in self.sizes and len(self.sizes) >= MAX_SIZES:
            size = (operation, datatype, ranks, None)
        self.sizes[size] += calls

    def epoch(self, caller: Caller) -> Epoch:
        """Return the latest epoch of a caller."""
        epochs = self.callers.get(caller)
        if epochs is None:
            epochs = self.callers[caller] = [Epoch()]
        return epochs[-1]

    def add_record(
        self,
        process: bytes,
        communicator: int | None,
        operation: str,
        datatype: int,
        ranks: int,
        count: int,
        calls: int,
    ) -> None:
        """Add calls with all fields of their records. Without a process or an address, they have no caller."""
        size = message_bytes(operation, datatype, count, ranks) or 0
        self.add_calls(operation, datatype, ranks, count, calls)
        self.calls += calls
        self.volume += calls * size
        if process and communicator is not None:
            epoch = self.epoch((process, communicator, ranks))
            epoch.volume += calls * size
            epoch.calls[operation] += calls

    def add_framework_line(self, text: str, calls: int, volume: int) -> None:
        """Store a line of the framework, up to `MAX_FRAMEWORK_LINES`."""
        if len(self.framework_lines) < MAX_FRAMEWORK_LINES:
            self.framework_lines.append(FrameworkLine(text, calls, volume))
        else:
            self.framework_lines_dropped += 1

    def add_error(self, process: bytes, text: str, times: int = 1) -> None:
        """Count an error by process and text, up to `MAX_ERRORS` distinct ones."""
        if (process, text) in self.errors or len(self.errors) < MAX_ERRORS:
            self.errors[process, text] += times
        else:
            self.errors_dropped += times

    def add_fact(self, topic: str, text: str) -> None:
        """Count a text under its topic."""
        self.facts.setdefault(topic, Counter())[text] += 1

    def add_user(self, what: str, process: bytes) -> None:
        """Record that a process uses a transport or network."""
        self.users.setdefault(what, set()).add(process)


def append(first: LogCounts, later: LogCounts) -> None:
    """Add the counts of the following chunk to `first`."""
    for line in later.framework_lines:
        first.add_framework_line(line.text, line.calls + first.calls, line.volume + first.volume)
    for name in ("lines", "calls", "volume", "long_lines", "cut_lines", "framework_lines_dropped", "errors_dropped"):
        setattr(first, name, getattr(first, name) + getattr(later, name))
    first.nodes = max(first.nodes, later.nodes)
    if len(first.sizes) + len(later.sizes) <= MAX_SIZES:
        first.sizes.update(later.sizes)
    else:
        for (operation, datatype, ranks, count), calls in later.sizes.items():
            first.add_calls(operation, datatype, ranks, count, calls)
    for counter in ("cut", "channels", "tuning"):
        getattr(first, counter).update(getattr(later, counter))
    for (process, text), times in later.errors.items():
        first.add_error(process, text, times)
    for what, processes in later.users.items():
        first.users.setdefault(what, set()).update(processes)
    for topic, texts in later.facts.items():
        first.facts.setdefault(topic, Counter()).update(texts)
    for caller, epochs in later.callers.items():
        _append_epochs(first, caller, epochs)
    first.opened.update(later.opened)


def _append_epochs(counts: LogCounts, caller: Caller, epochs: list[Epoch]) -> None:
    earlier = counts.callers.get(caller)
    for epoch in epochs:
        if epoch.init:
            resolve(counts, caller[0], epoch.init)
    if earlier is None:
        counts.callers[caller] = epochs
    elif epochs[0].init is None:
        earlier[-1].add(epochs[0])
        earlier += epochs[1:]
    else:
        earlier += epochs


def resolve(counts: LogCounts, process: bytes, init: Init) -> None:
    """Set the identity of a split communicator if its parent is known."""
    if init.identity or init.parent is None:
        return
    parent = counts.opened.get((process, init.parent))
    if parent and parent.identity:
        init.identity = f"{parent.identity}/{init.branch}"
