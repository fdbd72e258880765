"""Operations, totals, sizes, communicators, choices and lagging ranks, out of a tally. Pure."""

from __future__ import annotations

from collections import defaultdict

from .facts import ALGORITHMS, POINT_TO_POINT, PROTOCOLS, bus_factor, datatype_name, message_bytes
from .people import Member, epochs, global_ranks, groups, process
from .report import Choice, Communicator, Lag, Operation, Rank, Sizes, Total
from .tally import Tally


def operations(tally: Tally) -> tuple[Operation, ...]:
    """Every kind and size of call, the one that moves most bytes first."""
    rows = [
        Operation(
            op=op,
            datatype=datatype_name(datatype),
            nranks=ranks,
            count=count,
            message_bytes=None if count is None else message_bytes(op, datatype, count, ranks),
            calls=calls,
        )
        for (op, datatype, ranks, count), calls in tally.sizes.items()
    ]
    return tuple(sorted(rows, key=_weight))


def _weight(row: Operation) -> tuple[int, str, str, int, int]:
    return -(row.message_bytes or 0) * row.calls, row.op, row.datatype, row.nranks, row.count or 0


def totals(rows: tuple[Operation, ...]) -> tuple[Total, ...]:
    """The sum of each operation's rows, most bytes first."""
    by_op: dict[str, list[Operation]] = defaultdict(list)
    for row in rows:
        by_op[row.op].append(row)
    found = [
        Total(op=op, calls=sum(r.calls for r in some), message_bytes=_message_sum(some), bus_bytes=_bus_sum(some))
        for op, some in by_op.items()
    ]
    return tuple(sorted(found, key=lambda t: (-(t.message_bytes or 0), t.op)))


def _message_sum(rows: list[Operation]) -> int | None:
    sums = [None if r.message_bytes is None else r.message_bytes * r.calls for r in rows]
    return None if None in sums else sum(s for s in sums if s is not None)


def _bus_sum(rows: list[Operation]) -> float | None:
    total = 0.0
    for row in rows:
        factor = bus_factor(row.op, row.nranks)
        if row.message_bytes is None or factor is None:
            return None
        total += row.message_bytes * row.calls * factor
    return total


def histogram(rows: tuple[Operation, ...]) -> tuple[Sizes, ...]:
    """Calls by message size, one bar for each power of two that occurs; messages of 0 bytes have a bar of their own."""
    bars: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        if row.message_bytes is not None:
            bar = bars[row.message_bytes.bit_length()]
            bar[0] += row.calls
            bar[1] += row.calls * row.message_bytes
    return tuple(
        Sizes(from_bytes=1 << bits - 1 if bits else 0, to_bytes=1 << bits, calls=calls, message_bytes=size)
        for bits, (calls, size) in sorted(bars.items())
    )


def ranks(tally: Tally) -> tuple[Rank, ...]:
    """Every process that called or opened a communicator, by rank, host and pid."""
    known, sums = global_ranks(tally), dict[bytes, list[int]]()
    for (who, _, _), epoch in epochs(tally):
        some = sums.setdefault(who, [0, 0])
        some[0] += epoch.calls.total()
        some[1] += epoch.volume
    rows = []
    for who, (calls, volume) in sums.items():
        one = process(who)
        rank = known.get(who, one.rank)
        rows.append(Rank(rank=rank, host=one.host, pid=one.pid, calls=calls, message_bytes=volume))
    return tuple(sorted(rows, key=lambda r: (r.rank is None, r.rank or 0, r.host or "", r.pid or 0, r.calls)))


def communicators(tally: Tally) -> tuple[Communicator, ...] | None:
    """Every communicator that INIT lines name, the largest first; None without such lines."""
    sizes: dict[str, int] = defaultdict(int)
    for _, epoch in epochs(tally):
        if epoch.init and epoch.init.identity:
            sizes[epoch.init.identity] += epoch.volume
    found = [_communicator(ranks, members, sizes) for ranks, members in groups(tally) if members[0].identity]
    return tuple(found) or None


def _communicator(ranks: int, members: list[Member], sizes: dict[str, int]) -> Communicator:
    identity = members[0].identity or ""
    calls: dict[str, int] = defaultdict(int)
    for member in members:
        for op, times in member.calls.items():
            calls[op] += times
    return Communicator(
        id=identity,
        nranks=ranks,
        ranks_seen=len(members),
        hosts=tuple(sorted({p.host for p in map(process, (m.who for m in members)) if p.host})),
        calls=sum(calls.values()),
        message_bytes=sizes[identity],
        operations=dict(sorted(calls.items())),
    )


def choices(tally: Tally) -> tuple[Choice, ...] | None:
    """The algorithms and protocols of TUNING lines, most used first; None without such lines."""
    found: dict[tuple[str | None, str, str], list[int]] = {}
    for (op, algorithm, protocol, size), calls in tally.tuning.items():
        key = op, _named(algorithm, ALGORITHMS), _named(protocol, PROTOCOLS)
        some = found.setdefault(key, [0, size, size])
        found[key] = [some[0] + calls, min(some[1], size), max(some[2], size)]
    rows = [
        Choice(op=op, algorithm=algorithm, protocol=protocol, calls=calls, from_bytes=low, to_bytes=high)
        for (op, algorithm, protocol), (calls, low, high) in found.items()
    ]
    return tuple(sorted(rows, key=lambda c: (-c.calls, c.op or "", c.algorithm, c.protocol))) or None


def _named(text: str, names: tuple[str, ...]) -> str:
    return names[int(text)] if text.isdigit() and int(text) < len(names) else text.upper()


def lagging(tally: Tally) -> tuple[Lag, ...] | None:
    """Ranks that called a collective less often than a peer, beyond what cut lines explain.

    None where it cannot be told which processes belong together.
    """
    found, known, ranks_of = [], False, global_ranks(tally)
    for ranks, members in groups(tally):
        known = known or len(members) > 1
        for op in sorted({op for m in members for op in m.calls} - set(POINT_TO_POINT)):
            most = max(m.calls[op] for m in members)
            behind = [m for m in members if m.calls[op] + tally.cut[m.who] < most]
            found += [_lag(ranks, m, op, most, ranks_of) for m in behind]
    return tuple(found) if known else None


def _lag(ranks: int, member: Member, op: str, most: int, global_: dict[bytes, int]) -> Lag:
    who = process(member.who)
    return Lag(
        communicator=member.identity,
        nranks=ranks,
        op=op,
        rank=member.rank,
        global_rank=global_.get(member.who, who.rank),
        host=who.host,
        pid=who.pid,
        calls=member.calls[op],
        peers=most,
    )
