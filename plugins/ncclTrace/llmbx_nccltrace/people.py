"""Who is who: processes, their ranks, and the communicators that join them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from llmbx.logs.lines import split_label

from .tally import Caller, Epoch, Tally

_HOST = re.compile(rb"^([^\s:\[\]]+):(\d+)$")


class Process(NamedTuple):
    """One process. Without a host only a label's rank may be known."""

    name: str
    host: str | None
    pid: int | None
    rank: int | None


class Member(NamedTuple):
    """One rank of one communicator. `identity` is None where no INIT line names the communicator."""

    identity: str | None
    rank: int | None
    who: bytes
    calls: Counter[str]


def process(who: bytes) -> Process:
    """Host and pid of `host:pid`, or the rank that the label before `[dev]` names."""
    if found := _HOST.match(who):
        return Process(who.decode("utf-8", "replace"), found[1].decode("utf-8", "replace"), int(found[2]), None)
    text = who.decode("utf-8", "replace")
    if tagged := re.fullmatch(r"\[rank (\d+)\]", text):
        return Process(f"rank {tagged[1]}", None, None, int(tagged[1]))
    label, rank, rest = split_label(text.rpartition("/")[2])
    return Process(f"{label}{rest}" or "an unknown process", None, None, rank)


def mend(tally: Tally) -> None:
    """Give callers whose host was glued to or bitten by another writer's text back to the process they are of.

    `167node2:4711` and `node2:4711` are one when they use the same communicator address and only one of them opened it
    or, if none did, one has more calls.
    """
    alike: dict[tuple[bytes, int, int], list[Caller]] = {}
    for caller in tally.callers:
        if found := _HOST.match(caller[0]):
            alike.setdefault((found[2], *caller[1:]), []).append(caller)
    for callers in alike.values():
        callers.sort(key=lambda caller: _weight(tally.callers[caller]), reverse=True)
        for place, damaged in enumerate(callers):
            true = next((c for c in callers[:place] if _part(c[0], damaged[0])), None)
            if true and not _opened(tally.callers[damaged]):
                for epoch in tally.callers.pop(damaged):
                    tally.callers[true][-1].add(epoch)


def _part(one: bytes, other: bytes) -> bool:
    return one.endswith(other) or other.endswith(one)


def _opened(epochs: list[Epoch]) -> bool:
    return any(epoch.init for epoch in epochs)


def _weight(epochs: list[Epoch]) -> tuple[bool, int]:
    return _opened(epochs), sum(epoch.calls.total() for epoch in epochs)


def global_ranks(tally: Tally) -> dict[bytes, int]:
    """The rank of each process in the largest communicator that it opened."""
    largest: dict[bytes, tuple[int, int]] = {}
    for (who, _, _), epochs in tally.callers.items():
        for init in (epoch.init for epoch in epochs):
            if init and init.ranks > largest.get(who, (0, 0))[0]:
                largest[who] = init.ranks, init.rank
    return {who: rank for who, (_, rank) in largest.items()}


def epochs(tally: Tally) -> Iterator[tuple[Caller, Epoch]]:
    """Every epoch of every caller."""
    for caller, found in tally.callers.items():
        for epoch in found:
            yield caller, epoch


def groups(tally: Tally) -> list[tuple[int, list[Member]]]:
    """The ranks that called each other, by communicator: (ranks, members), largest first.

    By commId where INIT lines give it. In a log without any, calls of n ranks belong together only where exactly n
    processes made them.
    """
    named: dict[tuple[str, int], dict[int, Member]] = {}
    for (who, _, _), epoch in epochs(tally):
        if epoch.init and epoch.init.identity:
            members = named.setdefault((epoch.init.identity, epoch.init.ranks), {})
            known = members.get(epoch.init.rank)
            calls = epoch.calls + known.calls if known else epoch.calls
            members[epoch.init.rank] = Member(epoch.init.identity, epoch.init.rank, who, calls)
    if named:
        found = [(ranks, sorted(m.values(), key=lambda m: m.rank or 0)) for (_, ranks), m in sorted(named.items())]
        return sorted(found, key=lambda group: -group[0])
    return [] if any(epoch.init for _, epoch in epochs(tally)) else _unnamed(tally)


def _unnamed(tally: Tally) -> list[tuple[int, list[Member]]]:
    sizes: dict[int, list[Member]] = {}
    for (who, _, ranks), epoch in epochs(tally):
        sizes.setdefault(ranks, []).append(Member(None, None, who, epoch.calls))
    whole = [(n, members) for n, members in sizes.items() if n == len(members) == len({m.who for m in members})]
    return sorted(whole, key=lambda group: -group[0])
