"""Aggregate the counts of a log into operations, totals, sizes, communicators, tuning and lagging ranks. Pure."""

from __future__ import annotations

from collections import defaultdict

from .communicators import Member, epochs, global_ranks, groups, parse_process
from .counts import LogCounts
from .definitions import ALGORITHMS, POINT_TO_POINT, PROTOCOLS, bus_factor, datatype_name, message_bytes
from .report import Choice, Communicator, Lag, Operation, Rank, Sizes, Total


def operations(counts: LogCounts) -> tuple[Operation, ...]:
    """Return one row for each kind and size of call, sorted by the bytes it moves, descending."""
    rows = [
        Operation(
            op=op,
            datatype=datatype_name(datatype),
            nranks=ranks,
            count=count,
            message_bytes=None if count is None else message_bytes(op, datatype, count, ranks),
            calls=calls,
        )
        for (op, datatype, ranks, count), calls in counts.sizes.items()
    ]
    return tuple(sorted(rows, key=_weight))


def _weight(row: Operation) -> tuple[int, str, str, int, int]:
    return -(row.message_bytes or 0) * row.calls, row.op, row.datatype, row.nranks, row.count or 0


def totals(rows: tuple[Operation, ...]) -> tuple[Total, ...]:
    """Return the sum of each operation's rows, sorted by bytes, descending."""
    by_op: dict[str, list[Operation]] = defaultdict(list)
    for row in rows:
        by_op[row.op].append(row)
    totals = [
        Total(
            op=op,
            calls=sum(r.calls for r in operations),
            message_bytes=_message_sum(operations),
            bus_bytes=_bus_sum(operations),
        )
        for op, operations in by_op.items()
    ]
    return tuple(sorted(totals, key=lambda t: (-(t.message_bytes or 0), t.op)))


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
    """Return calls by message size, one bin per power of two that occurs; messages of 0 bytes have their own bin."""
    bins: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        if row.message_bytes is not None:
            bin_ = bins[row.message_bytes.bit_length()]
            bin_[0] += row.calls
            bin_[1] += row.calls * row.message_bytes
    return tuple(
        Sizes(from_bytes=1 << bits - 1 if bits else 0, to_bytes=1 << bits, calls=calls, message_bytes=size)
        for bits, (calls, size) in sorted(bins.items())
    )


def ranks(counts: LogCounts) -> tuple[Rank, ...]:
    """Return every process that called or initialized a communicator, sorted by rank, host and pid."""
    numbers, sums = global_ranks(counts), dict[bytes, list[int]]()
    for (process, _, _), epoch in epochs(counts):
        totals = sums.setdefault(process, [0, 0])
        totals[0] += epoch.calls.total()
        totals[1] += epoch.volume
    rows = []
    for process, (calls, volume) in sums.items():
        parsed = parse_process(process)
        rank = numbers.get(process, parsed.rank)
        rows.append(Rank(rank=rank, host=parsed.host, pid=parsed.pid, calls=calls, message_bytes=volume))
    return tuple(sorted(rows, key=lambda r: (r.rank is None, r.rank or 0, r.host or "", r.pid or 0, r.calls)))


def communicators(counts: LogCounts) -> tuple[Communicator, ...] | None:
    """Return every communicator named by INIT lines, largest first; None if there are no such lines."""
    sizes: dict[str, int] = defaultdict(int)
    for _, epoch in epochs(counts):
        if epoch.init and epoch.init.identity:
            sizes[epoch.init.identity] += epoch.volume
    named = [_communicator(ranks, members, sizes) for ranks, members in groups(counts) if members[0].identity]
    return tuple(named) or None


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
        hosts=tuple(sorted({p.host for p in map(parse_process, (m.process for m in members)) if p.host})),
        calls=sum(calls.values()),
        message_bytes=sizes[identity],
        operations=dict(sorted(calls.items())),
    )


def tuning_choices(counts: LogCounts) -> tuple[Choice, ...] | None:
    """Return the algorithms and protocols of TUNING lines, most used first; None if there are no such lines."""
    sums: dict[tuple[str | None, str, str], list[int]] = {}
    for (op, algorithm, protocol, size), calls in counts.tuning.items():
        key = op, _named(algorithm, ALGORITHMS), _named(protocol, PROTOCOLS)
        so_far = sums.setdefault(key, [0, size, size])
        sums[key] = [so_far[0] + calls, min(so_far[1], size), max(so_far[2], size)]
    rows = [
        Choice(op=op, algorithm=algorithm, protocol=protocol, calls=calls, from_bytes=low, to_bytes=high)
        for (op, algorithm, protocol), (calls, low, high) in sums.items()
    ]
    return tuple(sorted(rows, key=lambda c: (-c.calls, c.op or "", c.algorithm, c.protocol))) or None


def _named(text: str, names: tuple[str, ...]) -> str:
    return names[int(text)] if text.isdigit() and int(text) < len(names) else text.upper()


def lagging(counts: LogCounts) -> tuple[Lag, ...] | None:
    """Return the ranks that called a collective less often than a peer, after allowing for truncated lines.

    None if the log does not show which processes share a communicator.
    """
    lags, comparable, ranks_of = [], False, global_ranks(counts)
    for ranks, members in groups(counts):
        comparable = comparable or len(members) > 1
        for op in sorted({op for m in members for op in m.calls} - set(POINT_TO_POINT)):
            most = max(m.calls[op] for m in members)
            behind = [m for m in members if m.calls[op] + counts.cut[m.process] < most]
            lags += [_lag(ranks, m, op, most, ranks_of) for m in behind]
    return tuple(lags) if comparable else None


def _lag(ranks: int, member: Member, op: str, most: int, global_: dict[bytes, int]) -> Lag:
    parsed = parse_process(member.process)
    return Lag(
        communicator=member.identity,
        nranks=ranks,
        op=op,
        rank=member.rank,
        global_rank=global_.get(member.process, parsed.rank),
        host=parsed.host,
        pid=parsed.pid,
        calls=member.calls[op],
        peers=most,
    )
