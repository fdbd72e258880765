"""Identify processes and their ranks, and group ranks by communicator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from llmbx.api import split_label

from .counts import Caller, Epoch, LogCounts

_HOST = re.compile(rb"^([^\s:\[\]]+):(\d{1,18})$")


class Process(NamedTuple):
    """One process. If the log does not name its host, only the rank in a launcher's label may be known."""

    name: str
    host: str | None
    pid: int | None
    rank: int | None


class Member(NamedTuple):
    """One rank of one communicator. `identity` is None if no INIT line names the communicator."""

    identity: str | None
    rank: int | None
    process: bytes
    calls: Counter[str]


def parse_process(process: bytes) -> Process:
    """Parse `host:pid`, or take the rank from the label before `[dev]`."""
    if match := _HOST.match(process):
        return Process(process.decode("utf-8", "replace"), match[1].decode("utf-8", "replace"), int(match[2]), None)
    text = process.decode("utf-8", "replace")
    if tagged := re.fullmatch(r"\[rank (\d{1,9})\]", text):
        return Process(f"rank {tagged[1]}", None, None, int(tagged[1]))
    label, rank, text = split_label(text.rpartition("/")[2])
    return Process(f"{label}{text}" or "an unknown process", None, None, rank)


def merge_damaged_hosts(counts: LogCounts) -> None:
    """Merge callers whose host name was damaged by another writer's output into the process they belong to.

    `167node2:4711` and `node2:4711` are the same process if they use the same communicator address and only one of them
    initialized it. If neither did, the one with more calls is taken to be undamaged.
    """
    candidates: dict[tuple[bytes, int, int], list[Caller]] = {}
    for caller in counts.callers:
        if match := _HOST.match(caller[0]):
            candidates.setdefault((match[2], *caller[1:]), []).append(caller)
    for callers in candidates.values():
        callers.sort(key=lambda caller: _weight(counts.callers[caller]), reverse=True)
        for index, damaged in enumerate(callers):
            intact = next((c for c in callers[:index] if _is_part(c[0], damaged[0])), None)
            if intact and not _initialized(counts.callers[damaged]):
                for epoch in counts.callers.pop(damaged):
                    counts.callers[intact][-1].add(epoch)


def _is_part(first: bytes, second: bytes) -> bool:
    return first.endswith(second) or second.endswith(first)


def _initialized(epochs: list[Epoch]) -> bool:
    return any(epoch.init for epoch in epochs)


def _weight(epochs: list[Epoch]) -> tuple[bool, int]:
    return _initialized(epochs), sum(epoch.calls.total() for epoch in epochs)


def global_ranks(counts: LogCounts) -> dict[bytes, int]:
    """Return the rank of each process in the largest communicator that it initialized."""
    largest: dict[bytes, tuple[int, int]] = {}
    for (process, _, _), epochs in counts.callers.items():
        for init in (epoch.init for epoch in epochs):
            if init and init.ranks > largest.get(process, (0, 0))[0]:
                largest[process] = init.ranks, init.rank
    return {process: rank for process, (_, rank) in largest.items()}


def epochs(counts: LogCounts) -> Iterator[tuple[Caller, Epoch]]:
    """Yield every epoch of every caller."""
    for caller, epochs in counts.callers.items():
        for epoch in epochs:
            yield caller, epoch


def groups(counts: LogCounts) -> list[tuple[int, list[Member]]]:
    """Return the members of each communicator as (ranks, members), largest first.

    Members are grouped by the commId of INIT lines. In a log without INIT lines, calls with nranks=n are grouped only
    if exactly n processes made them.
    """
    named: dict[tuple[str, int], dict[int, Member]] = {}
    for (process, _, _), epoch in epochs(counts):
        if epoch.init and epoch.init.identity:
            members = named.setdefault((epoch.init.identity, epoch.init.ranks), {})
            earlier = members.get(epoch.init.rank)
            calls = epoch.calls + earlier.calls if earlier else epoch.calls
            members[epoch.init.rank] = Member(epoch.init.identity, epoch.init.rank, process, calls)
    if named:
        groups = [(ranks, sorted(m.values(), key=lambda m: m.rank or 0)) for (_, ranks), m in sorted(named.items())]
        return sorted(groups, key=lambda group: -group[0])
    return [] if any(epoch.init for _, epoch in epochs(counts)) else _unnamed(counts)


def _unnamed(counts: LogCounts) -> list[tuple[int, list[Member]]]:
    sizes: dict[int, list[Member]] = {}
    for (process, _, ranks), epoch in epochs(counts):
        sizes.setdefault(ranks, []).append(Member(None, None, process, epoch.calls))
    complete = [(n, members) for n, members in sizes.items() if n == len(members) == len({m.process for m in members})]
    return sorted(complete, key=lambda group: -group[0])
