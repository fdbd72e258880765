"""Find where the ranks of a communicator stop making the same calls, the cause of many hangs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from llmbx.api import RunFile

from .communicators import epochs, global_ranks, parse_process
from .counts import Caller, Epoch, LogCounts
from .definitions import POINT_TO_POINT, datatype_name
from .report import CallsAt, Divergence, Mismatch, Stop
from .tail import Call, Entry, Tail, read_tail

_SIZES = (1 << 19, 1 << 22, 1 << 26)
"""Bytes of the logs' ends that are read; more of them only if the ranks diverge before."""

_SHOWN = 4
"""Calls of a communicator that are reported, from the last common one on."""


class Seat(NamedTuple):
    """One rank of one communicator: its last collectives by position (see `_positions`).

    `first` and `last` are the first and last known position; -1 is before the first call.
    """

    rank: int | None
    process: bytes
    calls: Mapping[int, Entry]
    first: int
    last: int


class Read(NamedTuple):
    """What was read: all counts, the last calls, and the rank of each process in the run.

    `complete` if no line is damaged and the caller of every call is known, so that calls can be numbered.
    """

    counts: LogCounts
    tail: Tail
    ranks: Mapping[bytes, int]
    complete: bool


class Found(NamedTuple):
    """The result for one communicator. `sure` is False if more of the logs could show an earlier difference.

    `behind` are the processes that stopped before others, `waiting` those that continued or called something else.
    """

    divergence: Divergence | None = None
    sure: bool = True
    behind: frozenset[bytes] = frozenset()
    waiting: frozenset[bytes] = frozenset()


def divergences(counts: LogCounts, logs: Sequence[Path | RunFile]) -> tuple[Divergence, ...]:
    """Return the communicators whose ranks do not make the same calls, mismatches first.

    Ranks that stopped and wait for no other rank come before those that wait. Only the ends of the logs are read.
    """
    groups, compared = _groups(counts), list[Found]()
    ranks, complete = global_ranks(counts), _is_complete(counts)
    for size in _SIZES if groups else ():
        tail = read_tail(logs, size)
        read = Read(counts, tail, ranks, complete)
        compared = [_compare(read, *group) for group in groups.items()]
        if tail.whole or all(comparison.sure for comparison in compared):
            break
    waiting = frozenset[bytes]().union(*(comparison.waiting for comparison in compared))
    kept = [comparison for comparison in compared if comparison.divergence]
    kept.sort(
        key=lambda comparison: (
            not (comparison.divergence and comparison.divergence.mismatches),
            bool(comparison.behind & waiting),
        )
    )
    return tuple(comparison.divergence for comparison in kept if comparison.divergence)


def _groups(counts: LogCounts) -> dict[tuple[str | None, int], list[tuple[Caller, Epoch]]]:
    """Return the latest use of each address by communicator; without INIT lines, n processes that call with n ranks."""
    groups: dict[tuple[str | None, int], list[tuple[Caller, Epoch]]] = defaultdict(list)
    for caller, uses in counts.callers.items():
        init = uses[-1].init
        groups[init.identity if init else None, caller[2]].append((caller, uses[-1]))
    unnamed = not any(epoch.init for _, epoch in epochs(counts))
    return {
        (name, ranks): members
        for (name, ranks), members in sorted(groups.items(), key=lambda item: -item[0][1])
        if len(members) > 1 and (name or (unnamed and len({caller[0] for caller, _ in members}) == ranks))
    }


def _compare(read: Read, key: tuple[str | None, int], members: list[tuple[Caller, Epoch]]) -> Found:
    seats = _seats(read, members)
    if not seats:
        return Found()
    begin = max(seat.first for seat in seats)
    positions = sorted({p for seat in seats for p in seat.calls if p >= begin})
    common, differs = None, None
    for position in positions:
        called = _called(seats, position)
        if len(called) > 1:
            differs = position
            break
        if sum(map(len, called.values())) == len(seats):
            common = position
    end = max(seat.last for seat in seats) if differs is None else differs
    stopped = [seat for seat in seats if seat.last < end and not _is_cut(read.counts, seat, positions)]
    sure = (begin < 0 or common is not None or not (stopped or differs is not None)) and not _is_hidden(
        read, members, differs is not None or bool(stopped)
    )
    if differs is None and not stopped:
        return Found(sure=sure)
    ranks = _ranks(read, seats)
    shown = [p for p in positions if common is None or p >= common][:_SHOWN]
    divergence = Divergence(
        communicator=key[0],
        nranks=key[1],
        last_common_op_count=None if common is None else _number(seats, common),
        mismatches=() if differs is None else _mismatches(seats, differs, key[0], ranks),
        stopped=_stops(stopped, end, seats, ranks),
        calls=tuple(row for p in shown for row in _rows(seats, p, ranks)),
    )
    behind = frozenset(seat.process for seat in stopped)
    return Found(divergence, sure, behind, frozenset(seat.process for seat in seats) - behind)


def _seats(read: Read, members: list[tuple[Caller, Epoch]]) -> list[Seat]:
    """Return the ranks with their calls by position; none if the positions are not comparable.

    The position is the opCount. Where it does not number the collectives (sends and receives increase it, too, a group
    has one, and with one node it may stay 0), it is the number of the collective, if no line of the log is damaged.
    """
    readings = [(caller, epoch, read.tail.entries.get(caller, []), _collectives(epoch)) for caller, epoch in members]
    by_number = all(_is_numbered(kept) for _, _, kept, _ in readings) and not any(_sends(e) for _, e, _, _ in readings)
    if not by_number and not read.complete:
        return []
    seats = []
    if by_number:  # nothing is known of a rank that calls only before the end of the log that was read
        readings = [member for member in readings if member[2] or not member[3]]
    for (process, _, _), epoch, kept, total in readings:
        if len(kept) > total or not (by_number or epoch.init or len(kept) == total):
            return []
        skipped = total - len(kept)
        calls = {(e.number or 0) if by_number else skipped + i: e for i, e in enumerate(kept)}
        first = -1 if not skipped else min(calls, default=skipped)
        last = max(calls, default=-1 if by_number else total - 1)
        seats.append(Seat(epoch.init.rank if epoch.init else None, process, calls, first, last))
    return sorted(seats, key=lambda seat: (seat.rank or 0, seat.process)) if any(s.calls for s in seats) else []


def _collectives(epoch: Epoch) -> int:
    return sum(times for op, times in epoch.calls.items() if op not in POINT_TO_POINT)


def _sends(epoch: Epoch) -> bool:
    return any(op in POINT_TO_POINT for op in epoch.calls)


def _is_numbered(entries: Sequence[Entry]) -> bool:
    numbers = [-1 if entry.number is None else entry.number for entry in entries]
    return all(a < b for a, b in zip([-1, *numbers], numbers, strict=False))


def _is_complete(counts: LogCounts) -> bool:
    assigned = sum(epoch.calls.total() for _, epoch in epochs(counts))
    return not counts.cut and not counts.long_lines and not counts.cut_lines and assigned == counts.calls


def _is_cut(counts: LogCounts, seat: Seat, positions: Sequence[int]) -> bool:
    """Whether damaged lines may be the calls that a rank seems to lack."""
    missing = sum(position > seat.last for position in positions)
    return missing <= counts.cut[seat.process] + counts.cut[b""]


def _is_hidden(read: Read, members: list[tuple[Caller, Epoch]], differs: bool) -> bool:
    """Whether the ranks' totals differ although no difference is found in what was read."""
    totals = {tuple(sorted((op, n) for op, n in e.calls.items() if op not in POINT_TO_POINT)) for _, e in members}
    return not differs and len(totals) > 1 and read.complete


def _called(seats: Sequence[Seat], position: int) -> dict[Call, list[Seat]]:
    """Return the ranks by what they called at a position, the call of most ranks first."""
    by_call: dict[Call, list[Seat]] = defaultdict(list)
    for seat in seats:
        if entry := seat.calls.get(position):
            by_call[entry.call].append(seat)
    return dict(sorted(by_call.items(), key=lambda item: -len(item[1])))


def _number(seats: Sequence[Seat], position: int) -> int | None:
    """Return the opCount at a position, that of most ranks."""
    numbers = Counter(seat.calls[position].number for seat in seats if position in seat.calls)
    return numbers.most_common(1)[0][0] if numbers else None


def _ranks(read: Read, seats: Sequence[Seat]) -> dict[bytes, int | None]:
    return {seat.process: read.ranks.get(seat.process, parse_process(seat.process).rank) for seat in seats}


def _named(seats: Sequence[Seat], ranks: Mapping[bytes, int | None]) -> tuple[tuple[int | None, ...], tuple[str, ...]]:
    """Return ranks and `host, pid` of some seats, in the order of the ranks."""
    named = []
    for process in (seat.process for seat in seats):
        parsed = parse_process(process)
        named.append((ranks[process], f"{parsed.host}, pid {parsed.pid}" if parsed.host else parsed.name))
    named.sort(key=lambda item: (item[0] is None, item[0] or 0, item[1]))
    return tuple(rank for rank, _ in named), tuple(where for _, where in named)


def _mismatches(
    seats: Sequence[Seat], position: int, communicator: str | None, ranks: Mapping[bytes, int | None]
) -> tuple[Mismatch, ...]:
    """Return one mismatch for each call that is not the majority's; all of them if there is no majority."""
    called = list(_called(seats, position).items())
    tie = len(called[0][1]) == len(called[1][1])
    usual = called[0][0]
    same = len({(call.op, call.root) for call, _ in called}) == 1
    return tuple(
        Mismatch(
            communicator=communicator,
            op_count=_number(callers if tie else called[0][1], position),
            ranks=_named(callers, ranks)[0],
            collective=_text(call, usual if not tie else called[index == 0][0]),
            majority=None if tie else _text(usual, call),
            kind="count" if same or (not tie and (call.op, call.root) == (usual.op, usual.root)) else "collective",
        )
        for index, (call, callers) in enumerate(called)
        if tie or index
    )


def _text(call: Call, reference: Call) -> str:
    """Return the operation, with what differs from the other call of the same operation."""
    if call.op != reference.op:
        return call.op
    count = f" count {call.elements}" if call.elements != reference.elements else ""
    kind = f" {datatype_name(call.datatype)}" if call.datatype != reference.datatype else ""
    return f"{call.op}{count}{kind}" + (f" root {call.root}" if call.root != reference.root else "")


def _stops(
    stopped: Sequence[Seat], end: int, seats: Sequence[Seat], ranks: Mapping[bytes, int | None]
) -> tuple[Stop, ...]:
    by_last: dict[int, list[Seat]] = defaultdict(list)
    for seat in stopped:
        by_last[seat.last].append(seat)
    stops = []
    for last, ended in sorted(by_last.items()):
        numbers, places = _named(ended, ranks)
        stop = Stop(ranks=numbers, processes=places, op_count=_number(ended, last), peers_op_count=_number(seats, end))
        stops.append(stop)
    return tuple(stops)


def _rows(seats: Sequence[Seat], position: int, ranks: Mapping[bytes, int | None]) -> list[CallsAt]:
    """Return who made which call at a position, the call of the fewest ranks first."""
    return [
        CallsAt(
            op_count=_number(callers, position),
            op=call.op,
            datatype=datatype_name(call.datatype),
            count=call.elements,
            root=call.root,
            ranks=_named(callers, ranks)[0],
            processes=_named(callers, ranks)[1],
        )
        for call, callers in reversed(_called(seats, position).items())
    ]
