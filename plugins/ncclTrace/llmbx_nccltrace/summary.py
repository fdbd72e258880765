"""The report of a trace: what the tally means, and what is wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import calls, people, rhythm, transport
from .facts import DATATYPES
from .report import Lag, Problem, Report
from .tally import MOST_SIZES, Tally
from .words import many

if TYPE_CHECKING:
    from llmbx.logs.parser import LogFormat

_MOST_SENTENCES = 10


def summarise(tally: Tally, files: Sequence[Path], formats: Sequence[LogFormat] = ()) -> Report:
    """The report of what was read from `files`. `formats` are the frameworks' log formats, to find steps with."""
    people.mend(tally)
    rows, lagging, errors = calls.operations(tally), calls.lagging(tally), _errors(tally)
    found = transport.transport(tally)
    return Report(
        files=tuple(str(path) for path in files),
        lines=tally.lines,
        calls=tally.calls,
        cut=tally.cut.total(),
        versions=tuple(sorted(tally.facts.get("version", ()))),
        operations=rows,
        totals=calls.totals(rows),
        sizes=calls.histogram(rows),
        ranks=calls.ranks(tally),
        communicators=calls.communicators(tally),
        transport=found,
        tuning=calls.choices(tally),
        steps=rhythm.steps(tally, formats),
        lagging=lagging,
        errors=errors,
        warnings=(*transport.doubts(tally, found), *_lags(lagging or ()), *_problems(errors), *_gaps(tally)),
    )


def _errors(tally: Tally) -> tuple[Problem, ...]:
    ranks = people.global_ranks(tally)
    found = []
    for (who, text), times in tally.errors.items():
        process = people.process(who)
        rank = ranks.get(who, process.rank)
        found.append(Problem(text=text, times=times, rank=rank, host=process.host, pid=process.pid))
    return tuple(found)


def _lags(lagging: Sequence[Lag]) -> list[str]:
    said = [
        f"{_rank(lag.global_rank, lag.host, lag.pid)} made {lag.calls:,} {lag.op} calls on "
        f"{_communicator(lag)} where a peer made {lag.peers:,}: it is the suspect if the run hangs"
        for lag in lagging[:_MOST_SENTENCES]
    ]
    return said + _more(len(lagging), "lagging rank")


def _communicator(lag: Lag) -> str:
    name = f" {lag.communicator}" if lag.communicator else ""
    as_ = f" (there rank {lag.rank})" if lag.rank is not None and lag.rank != lag.global_rank else ""
    return f"communicator{name} of {lag.nranks} ranks{as_}"


def _problems(errors: Sequence[Problem]) -> list[str]:
    said = [
        f"{_rank(e.rank, e.host, e.pid)}: {e.text}" + (f" ({e.times:,} times)" if e.times > 1 else "")
        for e in errors[:_MOST_SENTENCES]
    ]
    return said + _more(len(errors), "error")


def _rank(rank: int | None, host: str | None, pid: int | None) -> str:
    where = f"{host}, pid {pid}" if host else ""
    if rank is None:
        return where or "a process that the line does not name"
    return f"rank {rank}" + (f" ({where})" if where else "")


def _more(count: int, thing: str) -> list[str]:
    rest = count - _MOST_SENTENCES
    return [f"{many(rest, f'more {thing}')}: see --format json"] if rest > 0 else []


def _gaps(tally: Tally) -> list[str]:
    """What is not in the figures."""
    said = []
    if not tally.calls:
        said.append("no collective is logged: NCCL_DEBUG_SUBSYS must name COLL (or ALL)")
    if cut := tally.cut.total():
        said.append(f"{many(cut, 'call')} not counted: the line was cut or mixed with another writer's")
    if tally.long_lines:
        said.append(f"{many(tally.long_lines, 'line')} passed over: too long for a log's")
    if strange := sorted({d for _, d, _, _ in tally.sizes if d >= len(DATATYPES)}):
        said.append(f"data type {', '.join(map(str, strange))} is unknown: its messages have no size")
    if folded := sum(n for (_, _, _, count), n in tally.sizes.items() if count is None):
        said.append(
            f"{many(folded, 'call')} with sizes beyond the first {MOST_SIZES:,} different ones: their count is null"
        )
    if tally.marks_lost:
        said.append(f"{many(tally.marks_lost, 'line')} of the framework passed over: later steps are missing")
    if tally.errors_lost:
        said.append(f"{many(tally.errors_lost, 'further error')} passed over")
    return said
