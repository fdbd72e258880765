"""A trace's report as tables for people. Pure: only `table` of its callers prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .report import Communicator, Report
from .rhythm import usual_calls
from .words import human, many

Row = Mapping[str, Any]

OPERATIONS = ("op", "datatype", "nranks", "count", "message_bytes", "calls")
"""The columns of the operations, in tables and in CSV."""


class Section(NamedTuple):
    """A titled table."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Row]


def headline(report: Report) -> list[str]:
    """What was read, and the transport's verdict."""
    where = f"{many(report.lines, 'line')} of {many(len(report.files), 'file')}"
    hosts = len({rank.host for rank in report.ranks if rank.host})
    by = f" by {many(len(report.ranks), 'process', 'processes')}" if report.ranks else ""
    on = f" on {many(hosts, 'host')}" if hosts else ""
    said = [f"{many(report.calls, 'call')}{by}{on} in {where}"]
    if report.versions:
        said.append(", ".join(report.versions))
    if report.transport:
        shown = "; ".join(report.transport.evidence[:3])
        said.append(f"transport: {report.transport.verdict}" + (f" ({shown})" if shown else ""))
    usual = usual_calls(report.steps or ())
    if report.steps and usual is not None:
        said.append(f"{many(len(report.steps), 'step')}, usually {many(usual, 'call')} each")
    return said


def sections(report: Report, top: int) -> Iterator[Section]:
    """The tables, each with at most `top` rows and a title that says of how many."""
    totals = [
        {"op": t.op, "calls": t.calls, "messages": human(t.message_bytes), "bus": human(t.bus_bytes)}
        for t in report.totals
    ]
    yield Section("operations", ("op", "calls", "messages", "bus"), totals)
    yield _cut("calls by size", OPERATIONS, [_operation(row) for row in report.operations], top)
    bars = [
        {"from": human(b.from_bytes), "below": human(b.to_bytes), "calls": b.calls, "messages": human(b.message_bytes)}
        for b in report.sizes
    ]
    yield Section("message sizes", ("from", "below", "calls", "messages"), bars)
    yield _cut("communicators", ("ranks", "communicators", "calls", "messages", "operations"), _alike(report), top)
    choices = [
        {**vars_of(c), "from_bytes": human(c.from_bytes), "to_bytes": human(c.to_bytes)} for c in report.tuning or ()
    ]
    yield _cut("choices", ("op", "algorithm", "protocol", "calls", "from_bytes", "to_bytes"), choices, top)
    steps = [{"step": s.step, "calls": s.calls, "messages": human(s.message_bytes)} for s in report.steps or ()]
    yield _cut("steps", ("step", "calls", "messages"), steps, top)


def _operation(row: Any) -> Row:
    return {**vars_of(row), "message_bytes": human(row.message_bytes)}


def vars_of(record: Any) -> dict[str, Any]:
    """The members of a record by name."""
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _cut(title: str, columns: tuple[str, ...], rows: Sequence[Row], top: int) -> Section:
    shown = f"{title} ({top} of {len(rows):,}; --top N or --format json for more)" if len(rows) > top else title
    return Section(shown, columns, rows[:top])


def _alike(report: Report) -> list[Row]:
    """Communicators of the same size that called the same: one row."""
    alike: dict[tuple[Any, ...], list[Communicator]] = {}
    for comm in report.communicators or ():
        alike.setdefault((comm.nranks, comm.calls, tuple(comm.operations.items())), []).append(comm)
    return [
        {
            "ranks": ranks,
            "communicators": len(comms),
            "calls": calls,
            "messages": human(sum(Counter({c.id: c.message_bytes for c in comms}).values()) // len(comms)),
            "operations": ", ".join(f"{op} {n:,}" for op, n in operations),
        }
        for (ranks, calls, operations), comms in alike.items()
    ]
