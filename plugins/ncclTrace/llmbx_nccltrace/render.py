"""Render the report of a trace as lines and tables. Pure: the caller prints them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import asdict

from llmbx.api import plural

from . import hangs
from .formatting import binary_bytes
from .report import Communicator, Operation, Report
from .steps import usual_calls

Row = Mapping[str, Any]

OPERATIONS = ("op", "datatype", "nranks", "count", "message_bytes", "calls")
"""The columns of the operations, in tables and in CSV."""


class Section(NamedTuple):
    """A titled table."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Row]


def headline(report: Report) -> list[str]:
    """Return the summary lines: what was read, the NCCL version, the transport and the calls per step."""
    where = f"{plural(report.lines, 'lines')} of {plural(len(report.files), 'files')}"
    hosts = len({rank.host for rank in report.ranks if rank.host})
    by = f" by {plural(len(report.ranks), 'processes', 'process')}" if report.ranks else ""
    on = f" on {plural(hosts, 'hosts')}" if hosts else ""
    lines = [f"{plural(report.calls, 'calls')}{by}{on} in {where}"]
    if report.versions:
        lines.append(", ".join(report.versions))
    if report.transport:
        shown = "; ".join(report.transport.evidence[:3])
        lines.append(f"transport: {report.transport.verdict}" + (f" ({shown})" if shown else ""))
    usual = usual_calls(report.steps or ())
    if report.steps and usual is not None:
        lines.append(f"{plural(len(report.steps), 'steps')}, median {plural(usual, 'calls')} per step")
    return lines


def sections(report: Report, top: int) -> Iterator[Section]:
    """Yield the tables, each with at most `top` rows; the title of a truncated table has the total."""
    yield _limit("calls where ranks differ", hangs.COLUMNS, hangs.rows(report.divergences), top)
    totals = [
        {"op": t.op, "calls": t.calls, "messages": binary_bytes(t.message_bytes), "bus": binary_bytes(t.bus_bytes)}
        for t in report.totals
    ]
    yield Section("operations", ("op", "calls", "messages", "bus"), totals)
    yield _limit("calls by size", OPERATIONS, [_operation(row) for row in report.operations], top)
    bars = [
        {
            "from": binary_bytes(b.from_bytes),
            "below": binary_bytes(b.to_bytes),
            "calls": b.calls,
            "messages": binary_bytes(b.message_bytes),
        }
        for b in report.sizes
    ]
    yield Section("message sizes", ("from", "below", "calls", "messages"), bars)
    yield _limit(
        "communicators",
        ("ranks", "communicators", "calls", "messages", "operations"),
        _group_communicators(report),
        top,
    )
    choices = [
        {**asdict(c), "from_bytes": binary_bytes(c.from_bytes), "to_bytes": binary_bytes(c.to_bytes)}
        for c in report.tuning or ()
    ]
    yield _limit(
        "algorithms and protocols", ("op", "algorithm", "protocol", "calls", "from_bytes", "to_bytes"), choices, top
    )
    steps = [{"step": s.step, "calls": s.calls, "messages": binary_bytes(s.message_bytes)} for s in report.steps or ()]
    yield _limit("steps", ("step", "calls", "messages"), steps, top)


def _operation(row: Operation) -> Row:
    return {**asdict(row), "message_bytes": binary_bytes(row.message_bytes)}


def _limit(title: str, columns: tuple[str, ...], rows: Sequence[Row], top: int) -> Section:
    shown = f"{title} ({top} of {len(rows):,}; --top N or --format json for more)" if len(rows) > top else title
    return Section(shown, columns, rows[:top])


def _group_communicators(report: Report) -> list[Row]:
    """Return one row for all communicators with the same size and the same calls."""
    grouped: dict[tuple[Any, ...], list[Communicator]] = {}
    for comm in report.communicators or ():
        grouped.setdefault((comm.nranks, comm.calls, tuple(comm.operations.items())), []).append(comm)
    return [
        {
            "ranks": ranks,
            "communicators": len(comms),
            "calls": calls,
            "messages": binary_bytes(sum(Counter({c.id: c.message_bytes for c in comms}).values()) // len(comms)),
            "operations": ", ".join(f"{op} {n:,}" for op, n in operations),
        }
        for (ranks, calls, operations), comms in grouped.items()
    ]
