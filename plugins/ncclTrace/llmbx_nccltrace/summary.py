"""Build the report of a trace from its counts, with warnings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmbx.api import Failure, listed, plural

from . import aggregate, communicators, hangs, steps, transport
from .counts import MAX_SIZES, LogCounts
from .definitions import DATATYPES
from .report import Divergence, Lag, Problem, Report

if TYPE_CHECKING:
    from llmbx.api import LogFormat

_MAX_LISTED = 10


def summarize(
    counts: LogCounts,
    files: Sequence[object],
    formats: Sequence[LogFormat] = (),
    divergences: Sequence[Divergence] = (),
) -> Report:
    """Return the report of the counts read from `files`. `formats` are the log formats used to find the steps.

    Lagging ranks of a communicator are not repeated in the warnings if its divergence names them.
    """
    communicators.merge_damaged_hosts(counts)
    described = {
        (divergence.communicator, divergence.nranks) for divergence in divergences if hangs.is_described(divergence)
    }
    rows, lagging, errors = aggregate.operations(counts), aggregate.lagging(counts), _errors(counts)
    network = transport.transport(counts)
    return Report(
        files=tuple(str(path) for path in files),
        lines=counts.lines,
        calls=counts.calls,
        cut=counts.cut.total(),
        versions=tuple(sorted(counts.facts.get("version", ()))),
        operations=rows,
        totals=aggregate.totals(rows),
        sizes=aggregate.histogram(rows),
        ranks=aggregate.ranks(counts),
        communicators=aggregate.communicators(counts),
        transport=network,
        tuning=aggregate.tuning_choices(counts),
        steps=steps.calls_by_step(counts, formats),
        lagging=lagging,
        errors=errors,
        warnings=(
            *hangs.warnings(divergences),
            *_versions(counts),
            *transport.warnings(counts, network),
            *_lags([lag for lag in lagging or () if (lag.communicator, lag.nranks) not in described]),
            *_problems(errors),
            *_coverage(counts),
        ),
        mismatches=tuple(mismatch for divergence in divergences for mismatch in divergence.mismatches),
        divergences=tuple(divergences),
    )


def with_failure(report: Report, failed: Failure) -> Report:
    """The report with the first failure, which stands before all other warnings; after them if it is in doubt."""
    node = f" on {failed.node}" if failed.node else ""
    doubt = f" (in doubt: {failed.doubt})" if failed.doubt else ""
    first = f"failed first: {failed.who or 'an unknown rank'}{node}: {failed.cause[:200]}{doubt}; see llmbx explain"
    warnings = (*report.warnings, first) if failed.doubt else (first, *report.warnings)
    whole: Report = report.replace(failed=failed, warnings=warnings)
    return whole


def _versions(counts: LogCounts) -> list[str]:
    """Return a warning if the processes load different versions, which NCCL does not support in one job."""
    versions = sorted(counts.facts.get("version", ()))
    if len({version.split()[0] for version in versions}) == len(versions):
        return []
    where = {version: listed(transport.hosts_of(counts, f"version {version}"), 6) for version in versions}
    text = "; ".join(version + (f" on {hosts}" if hosts else "") for version, hosts in where.items())
    return [f"versions differ: {text}"]


def _errors(counts: LogCounts) -> tuple[Problem, ...]:
    ranks = communicators.global_ranks(counts)
    problems = []
    for (process, text), times in counts.errors.items():
        parsed = communicators.parse_process(process)
        rank = ranks.get(process, parsed.rank)
        problems.append(Problem(text=text, times=times, rank=rank, host=parsed.host, pid=parsed.pid))
    return tuple(problems)


def _lags(lagging: Sequence[Lag]) -> list[str]:
    warnings = [
        f"{_rank(lag.global_rank, lag.host, lag.pid)} made {lag.calls:,} {lag.op} calls on "
        f"{_communicator(lag)}, a peer made {lag.peers:,}: check this rank if the run hangs"
        for lag in lagging[:_MAX_LISTED]
    ]
    return warnings + _more(len(lagging), "lagging ranks")


def _communicator(lag: Lag) -> str:
    name = f" {lag.communicator}" if lag.communicator else ""
    as_ = f" (as rank {lag.rank})" if lag.rank is not None and lag.rank != lag.global_rank else ""
    return f"communicator{name} of {lag.nranks} ranks{as_}"


def _problems(errors: Sequence[Problem]) -> list[str]:
    warnings = [
        f"{_rank(e.rank, e.host, e.pid)}: {e.text}" + (f" ({e.times:,} times)" if e.times > 1 else "")
        for e in errors[:_MAX_LISTED]
    ]
    return warnings + _more(len(errors), "errors")


def _rank(rank: int | None, host: str | None, pid: int | None) -> str:
    where = f"{host}, pid {pid}" if host else ""
    if rank is None:
        return where or "unknown process"
    return f"rank {rank}" + (f" ({where})" if where else "")


def _more(count: int, things: str) -> list[str]:
    hidden = count - _MAX_LISTED
    return [f"{plural(hidden, f'more {things}')}: see --format json"] if hidden > 0 else []


def _coverage(counts: LogCounts) -> list[str]:
    """Return warnings about lines that are missing or not counted."""
    warnings = []
    if not counts.calls:
        warnings.append("no collectives in the log: NCCL_DEBUG_SUBSYS must include COLL (or ALL)")
    if cut := counts.cut.total():
        warnings.append(f"{plural(cut, 'calls')} not counted: the line was truncated or interleaved with other output")
    if counts.long_lines:
        warnings.append(f"{plural(counts.long_lines, 'lines')} skipped: the line is too long")
    if counts.cut_lines:
        warnings.append(f"{plural(counts.cut_lines, 'lines')} cut after 64 KiB")
    if strange := sorted({d for _, d, _, _ in counts.sizes if d >= len(DATATYPES)}):
        warnings.append(f"data type {', '.join(map(str, strange))} is unknown: the size of its messages is not counted")
    if folded := sum(n for (_, _, _, count), n in counts.sizes.items() if count is None):
        warnings.append(f"{plural(folded, 'calls')} beyond the first {MAX_SIZES:,} distinct sizes: their count is null")
    if counts.framework_lines_dropped:
        warnings.append(
            f"{plural(counts.framework_lines_dropped, 'lines')} of the framework skipped: later steps are missing"
        )
    if counts.errors_dropped:
        warnings.append(f"{plural(counts.errors_dropped, 'further errors')} skipped")
    return warnings
