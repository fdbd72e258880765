"""Convert the report of a trace to a report section, for `llmbx nccl --html` and the report of a traced run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Axis, Chart, Column, Fact, Point, RunFolder, Section, Series, Table

from . import hangs
from .findings import NAME
from .render import headline
from .report import Operation, Report, Sizes, StepCalls
from .steps import usual_calls

FOLD_ROWS = 20
"""Tables with more rows are folded."""

PER_RANK = "AllGather, ReduceScatter, AlltoAll, Gather and Scatter"
BUS = f"AllReduce 2(n-1)/n, {PER_RANK} (n-1)/n of the message for n ranks, summed over calls"


def run_sections(run_dir: Path) -> tuple[Section, ...]:
    """Return the section of a traced run from its `nccl.json`, or a section that says how to analyze the trace."""
    from msgspec import DecodeError, json

    try:
        report = json.decode(RunFolder(path=run_dir).read(NAME), type=Report)
    except (OSError, DecodeError):
        text = f"The trace was not analyzed at the end of the run. To analyze it: `llmbx nccl {run_dir}`"
        return (Section(name="nccl", title="Communication (NCCL trace)", text=(text,)),)
    return (section(report),)


def section(report: Report) -> Section:
    """Return the section of a report: summary, facts, charts and tables."""
    charts = [_sizes(report.sizes), *([_step_calls(report.steps)] if report.steps else [])]
    return Section(
        name="nccl",
        title="Communication (NCCL trace)",
        text=(*headline(report), "A traced run is not a benchmark result: logging slows it down."),
        warnings=report.warnings,
        facts=_facts(report),
        charts=tuple(chart for chart in charts if chart is not None),
        tables=tuple(table for table in _tables(report) if table.rows),
    )


def _facts(report: Report) -> tuple[Fact, ...]:
    verdict = report.transport.verdict if report.transport else None
    why = None if verdict else "no INIT or NET line shows a transport"
    lagging = None if report.lagging is None else len({(lag.rank, lag.host, lag.pid) for lag in report.lagging})
    usual = usual_calls(report.steps or ())
    return (
        Fact(name="transport", value=verdict, formula="from the NET, INIT and channel lines", note=why),
        Fact(name="calls", value=report.calls, unit="calls", formula="log lines of collectives, one per rank"),
        Fact(name="median calls per step", value=usual, unit="calls", formula="median over all steps except the first",
               note=None if usual is not None else "the log has fewer than two steps"),
        Fact(name="lagging ranks", value=lagging, unit="ranks",
               formula="ranks with fewer calls of a collective than a peer",
               note=None if lagging is not None else "the log does not show which ranks share a communicator"),
        Fact(name="errors and warnings", value=len(report.errors), unit="messages", formula="distinct WARN lines"),
    )  # fmt: skip


def _sizes(sizes: Sequence[Sizes]) -> Chart | None:
    """Return the chart of calls by message size; messages of 0 bytes cannot be shown on the logarithmic axis."""
    bars = [bar for bar in sizes if bar.from_bytes]
    if not bars:
        return None
    most = max(bars, key=lambda bar: bar.calls)
    points = tuple(Point(x=b.from_bytes, until=b.to_bytes, y=b.calls) for b in bars)
    empty = sum(bar.calls for bar in sizes if not bar.from_bytes)
    return Chart(
        name="message-sizes",
        title="Message sizes",
        x=Axis(title="message", unit="B", log=True),
        y=Axis(title="calls", unit="calls", zero=True),
        series=(Series(name="calls", points=points, marks="bars"),),
        summary=f"Most calls ({most.calls:,}) have {most.from_bytes:,} to {most.to_bytes:,} bytes"
        + (f"; {empty:,} calls of 0 bytes are not shown." if empty else "."),
        formula="log lines by the size of the whole message; one bin per power of two",
    )


def _step_calls(steps: Sequence[StepCalls]) -> Chart:
    points = tuple(Point(x=step.step, y=step.calls) for step in steps)
    return Chart(
        name="calls-by-step",
        title="Calls by step",
        x=Axis(title="step", unit="number"),
        y=Axis(title="calls", unit="calls", zero=True),
        series=(Series(name="calls", points=points),),
        summary="Calls of all ranks between the lines of consecutive steps; the first step includes start-up.",
        formula="log lines of collectives since the previous step",
    )


def _tables(report: Report) -> list[Table]:
    totals = tuple((t.op, t.calls, _mib(t.message_bytes), _mib(t.bus_bytes)) for t in report.totals)
    differ = tuple(tuple(map(str, row.values())) for row in hangs.rows(report.divergences))
    return [
        _table("calls where ranks differ", tuple(Column(title=title) for title in hangs.COLUMNS), differ),
        _table("operations", (*_OP, Column(title="messages", unit="MiB"),
                              Column(title="bus bytes", unit="MiB", formula=BUS)), totals),
        _table("calls by size", _SIZES, tuple(_operation(row) for row in report.operations)),
        _table("communicators", _COMMUNICATORS, tuple(
            (c.id, c.nranks, c.ranks_seen, c.calls, _mib(c.message_bytes), ", ".join(c.hosts))
            for c in report.communicators or ())),
        _table("connections by transport", (Column(title="transport"), Column(title="channels", unit="channels")),
               tuple((report.transport.channels if report.transport else {}).items())),
        _table("algorithms and protocols", _CHOICES, tuple(
            (c.op or "", c.algorithm, c.protocol, c.calls, c.from_bytes, c.to_bytes) for c in report.tuning or ())),
        _table("ranks", _RANKS, tuple(
            (_text(r.rank), r.host or "", _text(r.pid), r.calls, _mib(r.message_bytes)) for r in report.ranks)),
        _table("lagging ranks", _LAGS, tuple(
            (_text(g.global_rank), g.host or "", g.op, g.communicator or "", g.calls, g.peers)
            for g in report.lagging or ())),
        _table("NCCL errors and warnings", (Column(title="message"), Column(title="times", unit="times"),
                                               Column(title="rank"), Column(title="host")),
               tuple((e.text, e.times, _text(e.rank), e.host or "") for e in report.errors)),
    ]  # fmt: skip


_CALLS = Column(title="calls", unit="calls", formula="log lines, one per rank")
_OP = (Column(title="operation"), _CALLS)
_SIZES = (Column(title="operation"), Column(title="data type"), Column(title="ranks", unit="ranks"),
          Column(title="count", unit="elements"),
          Column(title="message", unit="B", formula=f"count × element size, × ranks for {PER_RANK}"),
          _CALLS)  # fmt: skip
_COMMUNICATORS = (Column(title="communicator"), Column(title="ranks", unit="ranks"),
                  Column(title="seen", unit="ranks", formula="ranks whose INIT line is in the logs"), _CALLS,
                  Column(title="messages", unit="MiB"), Column(title="hosts"))  # fmt: skip
_CHOICES = (Column(title="operation"), Column(title="algorithm"), Column(title="protocol"), _CALLS,
            Column(title="from", unit="B"), Column(title="to", unit="B"))  # fmt: skip
_RANKS = (Column(title="rank"), Column(title="host"), Column(title="process"), _CALLS,
          Column(title="messages", unit="MiB"))  # fmt: skip
_LAGS = (Column(title="rank"), Column(title="host"), Column(title="operation"), Column(title="communicator"), _CALLS,
         Column(title="calls of a peer", unit="calls"))  # fmt: skip


def _table(title: str, columns: tuple[Column, ...], rows: tuple[tuple[str | int | float | None, ...], ...]) -> Table:
    return Table(title=title, columns=columns, rows=rows, folded=len(rows) > FOLD_ROWS)


def _operation(row: Operation) -> tuple[str | int | None, ...]:
    return row.op, row.datatype, row.nranks, row.count, row.message_bytes, row.calls


def _mib(size: float | None) -> float | None:
    return None if size is None else size / 2**20


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
