"""Describe diverging ranks in lines and tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from llmbx.api import plural

from .report import CallsAt, Divergence, Mismatch

_MAX_LISTED = 10

COLUMNS = ("communicator", "opCount", "op", "datatype", "count", "root", "ranks")
"""The columns of `rows`."""


def warnings(divergences: Sequence[Divergence]) -> list[str]:
    """Return one line for each mismatch, then one for the ranks that stopped. opCounts are hexadecimal, as in logs."""
    lines = [_mismatch(divergence, mismatch) for divergence in divergences for mismatch in divergence.mismatches]
    lines += [line for divergence in divergences for line in _stops(divergence)]
    hidden = len(lines) - _MAX_LISTED
    more = [f"{plural(hidden, 'more differences')}: see --format json"] if hidden > 0 else []
    return lines[:_MAX_LISTED] + more


def is_described(divergence: Divergence) -> bool:
    """Whether `warnings` names all ranks of this communicator that made fewer calls."""
    return bool(divergence.mismatches) or all(stop.op_count != stop.peers_op_count for stop in divergence.stopped)


def rows(divergences: Sequence[Divergence]) -> list[dict[str, Any]]:
    """Return the calls from the last common one on, one row for each call and the ranks that made it."""
    return [
        {
            "communicator": divergence.communicator or f"{divergence.nranks} ranks",
            "opCount": _hex(at.op_count),
            "op": at.op,
            "datatype": at.datatype,
            "count": at.count,
            "root": at.root,
            "ranks": _spans(at.ranks) or ", ".join(at.processes),
        }
        for divergence in divergences
        for at in divergence.calls
    ]


def _mismatch(divergence: Divergence, mismatch: Mismatch) -> str:
    common = divergence.last_common_op_count
    made = [at for at in divergence.calls if at.op_count == mismatch.op_count != common]
    odd = next((at for at in divergence.calls if at.ranks == mismatch.ranks), None)
    usual = f", most ranks {mismatch.majority}" if mismatch.majority else ", and no call has a majority"
    who = _who(mismatch.ranks, odd.processes if odd else ())
    where = f"at opCount {_hex(mismatch.op_count)} of {_communicator(divergence)}"
    last = "" if common in (None, mismatch.op_count) else f"; the last common call is opCount {_hex(common)}"
    return f"{who} called {mismatch.collective} {where}{usual}{_calls(made)}{last}"


def _calls(made: Sequence[CallsAt]) -> str:
    who = [_spans(at.ranks) or plural(len(at.processes), "processes", "process") for at in made]
    texts = [f"{ranks}: {at.op} of {at.count:,} {at.datatype}" for ranks, at in zip(who, made, strict=True)]
    return f" ({'; '.join(texts)})" if texts else ""


def _stops(divergence: Divergence) -> Iterator[str]:
    for stop in divergence.stopped if is_described(divergence) else ():
        after = "no call" if stop.op_count is None else f"no call after opCount {_hex(stop.op_count)}"
        yield (
            f"{_who(stop.ranks, stop.processes)} made {after} on {_communicator(divergence)}, a peer is at opCount "
            f"{_hex(stop.peers_op_count)}: check this rank if the run hangs"
        )


def _communicator(divergence: Divergence) -> str:
    name = f" {divergence.communicator}" if divergence.communicator else ""
    return f"communicator{name} of {divergence.nranks} ranks"


def _who(ranks: Sequence[int | None], processes: Sequence[str]) -> str:
    shown = "; ".join(processes[:4]) + (f" and {len(processes) - 4:,} more" if len(processes) > 4 else "")
    spans = _spans(ranks)
    if not spans:
        return shown or "unknown process"
    return f"rank{'s' if len(ranks) > 1 else ''} {spans}" + (f" ({shown})" if shown else "")


def _spans(ranks: Sequence[int | None]) -> str:
    """Return `0-2, 5`; empty if a rank is unknown."""
    numbers = sorted({rank for rank in ranks if rank is not None})
    if len(numbers) < len(set(ranks)):
        return ""
    runs = [[rank for _, rank in run] for _, run in groupby(enumerate(numbers), lambda item: item[1] - item[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _hex(number: int | None) -> str:
    return "unknown" if number is None else f"{number:x}"
