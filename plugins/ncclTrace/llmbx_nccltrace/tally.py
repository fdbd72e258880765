"""What a stretch of an NCCL log showed: counts that can be added to those of the stretch that follows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .facts import message_bytes

MOST_SIZES = 100_000
"""Distinct (operation, datatype, ranks, count) that are kept apart; the calls beyond have no known count."""

MOST_MARKS = 50_000
MOST_ERRORS = 1_000

Size = tuple[str, int, int, int | None]
"""Operation, `ncclDataType_t`, ranks, elements (None beyond `MOST_SIZES`)."""

Caller = tuple[bytes, int, int]
"""Who (see `grammar.Said`), the communicator's address in that process, and its ranks."""


@dataclass(slots=True)
class Init:
    """An `Init COMPLETE` line. `identity` names the communicator in every process; None when its parent is unknown.

    A split names its parent by `parent` and `branch` (split number and color) instead, until `identity` is known.
    """

    rank: int
    ranks: int
    device: int
    identity: str | None
    parent: int | None = None
    branch: str = ""


@dataclass(slots=True)
class Epoch:
    """The calls of one process on one communicator. An address that is used anew begins a new epoch."""

    init: Init | None = None
    volume: int = 0
    calls: Counter[str] = field(default_factory=Counter)

    def add(self, other: Epoch) -> None:
        """Add the later calls of the same communicator."""
        self.volume += other.volume
        self.calls.update(other.calls)


@dataclass(slots=True)
class Mark:
    """A line that NCCL did not write, and what had been called before it: calls, and bytes of messages."""

    text: str
    calls: int
    volume: int


@dataclass(slots=True)
class Tally:
    """Everything that one stretch showed. `volume` is the bytes of all messages.

    `cut` counts records of which a part is missing, by who began them; `opened` is the latest communicator at each
    address; `channels` counts connections by transport, `facts` texts by topic, and `places` says who had which;
    `tuning` counts choices by operation, algorithm, protocol and bytes.
    """

    lines: int = 0
    calls: int = 0
    volume: int = 0
    long_lines: int = 0
    nodes: int = 0
    sizes: Counter[Size] = field(default_factory=Counter)
    callers: dict[Caller, list[Epoch]] = field(default_factory=dict)
    opened: dict[tuple[bytes, int], Init] = field(default_factory=dict)
    cut: Counter[bytes] = field(default_factory=Counter)
    marks: list[Mark] = field(default_factory=list)
    marks_lost: int = 0
    channels: Counter[str] = field(default_factory=Counter)
    places: dict[str, set[bytes]] = field(default_factory=dict)
    facts: dict[str, Counter[str]] = field(default_factory=dict)
    tuning: Counter[tuple[str | None, str, str, int]] = field(default_factory=Counter)
    errors: Counter[tuple[bytes, str]] = field(default_factory=Counter)
    errors_lost: int = 0

    def count(self, operation: str, datatype: int, ranks: int, count: int | None, calls: int) -> None:
        """Add calls of one kind and size."""
        size = (operation, datatype, ranks, count)
        if size not in self.sizes and len(self.sizes) >= MOST_SIZES:
            size = (operation, datatype, ranks, None)
        self.sizes[size] += calls

    def epoch(self, caller: Caller) -> Epoch:
        """The latest epoch of a caller."""
        epochs = self.callers.get(caller)
        if epochs is None:
            epochs = self.callers[caller] = [Epoch()]
        return epochs[-1]

    def record(
        self, who: bytes, communicator: int | None, operation: str, datatype: int, ranks: int, count: int, calls: int
    ) -> None:
        """Add calls with all that their lines say. Without a header (`who` empty) or an address there is no caller."""
        size = message_bytes(operation, datatype, count, ranks) or 0
        self.count(operation, datatype, ranks, count, calls)
        self.calls += calls
        self.volume += calls * size
        if who and communicator is not None:
            epoch = self.epoch((who, communicator, ranks))
            epoch.volume += calls * size
            epoch.calls[operation] += calls

    def mark(self, text: str, calls: int, volume: int) -> None:
        """Keep a line of the framework, as long as there are not too many."""
        if len(self.marks) < MOST_MARKS:
            self.marks.append(Mark(text, calls, volume))
        else:
            self.marks_lost += 1

    def error(self, who: bytes, text: str, times: int = 1) -> None:
        """Keep an error; the same text of the same process is kept once and counted."""
        if (who, text) in self.errors or len(self.errors) < MOST_ERRORS:
            self.errors[who, text] += times
        else:
            self.errors_lost += times

    def fact(self, topic: str, text: str) -> None:
        """Count a text under its topic."""
        self.facts.setdefault(topic, Counter())[text] += 1

    def place(self, what: str, who: bytes) -> None:
        """Remember who used a transport or network."""
        self.places.setdefault(what, set()).add(who)


def append(first: Tally, later: Tally) -> None:
    """Add to `first` what the stretch after it showed."""
    for mark in later.marks:
        first.mark(mark.text, mark.calls + first.calls, mark.volume + first.volume)
    for name in ("lines", "calls", "volume", "long_lines", "marks_lost", "errors_lost"):
        setattr(first, name, getattr(first, name) + getattr(later, name))
    first.nodes = max(first.nodes, later.nodes)
    for (operation, datatype, ranks, count), calls in later.sizes.items():
        first.count(operation, datatype, ranks, count, calls)
    for counter in ("cut", "channels", "tuning"):
        getattr(first, counter).update(getattr(later, counter))
    for (who, text), times in later.errors.items():
        first.error(who, text, times)
    for what, whos in later.places.items():
        first.places.setdefault(what, set()).update(whos)
    for topic, texts in later.facts.items():
        first.facts.setdefault(topic, Counter()).update(texts)
    for caller, epochs in later.callers.items():
        _append_epochs(first, caller, epochs)
    first.opened.update(later.opened)


def _append_epochs(tally: Tally, caller: Caller, epochs: list[Epoch]) -> None:
    known = tally.callers.get(caller)
    for epoch in epochs:
        if epoch.init:
            resolve(tally, caller[0], epoch.init)
    if known is None:
        tally.callers[caller] = epochs
    elif epochs[0].init is None:
        known[-1].add(epochs[0])
        known += epochs[1:]
    else:
        known += epochs


def resolve(tally: Tally, who: bytes, init: Init) -> None:
    """Name a split communicator after its parent, where the parent is known by now."""
    if init.identity or init.parent is None:
        return
    parent = tally.opened.get((who, init.parent))
    if parent and parent.identity:
        init.identity = f"{parent.identity}/{init.branch}"
