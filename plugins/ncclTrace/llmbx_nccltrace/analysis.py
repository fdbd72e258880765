"""Find and read NCCL logs and build the report, using the frameworks' log formats to find the training steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import UsageError

from .communicators import merge_damaged_hosts
from .counts import LogCounts
from .divergence import divergences
from .failures import failure
from .paths import find_logs
from .report import Report
from .scan import Engine, read_logs
from .summary import summarize, with_failure

if TYPE_CHECKING:
    from llmbx.api import LogFormat

_MANY_LINES = 1_000_000


def read_report(
    paths: Sequence[Path], engine: Engine = "auto", note: Callable[[str], None] = lambda text: None
) -> Report:
    """Return the report of the logs in `paths`; hints for the user are passed to `note`.

    Raises `UsageError` if the logs contain no NCCL lines, `InfraError` if they cannot be read.
    """
    logs = find_logs(paths)
    counts, used = read_logs(logs, engine)
    if engine == "auto" and used == "python" and counts.lines > _MANY_LINES:
        note("this installation has no compiled scanner; reinstall llmbx with gcc or clang to read large logs faster")
    if _is_empty(counts):
        where = logs[0] if len(logs) == 1 else f"{len(logs)} files"
        raise UsageError(f"{where}: no NCCL lines found. Set NCCL_DEBUG=INFO (llmbx run … --with nccltrace)")
    merge_damaged_hosts(counts)
    formats = _formats() if counts.framework_lines else ()
    report = summarize(counts, logs, formats, divergences(counts, logs))
    first_failure = failure(logs, formats)
    return report if first_failure is None else with_failure(report, first_failure)


def _is_empty(counts: LogCounts) -> bool:
    seen = (counts.sizes, counts.cut, counts.facts, counts.channels, counts.errors, counts.callers, counts.tuning)
    return not any(seen) and not counts.nodes


def _formats() -> Sequence[LogFormat]:
    from llmbx.api.verbs import load_plugins as load

    return load().log_formats()
