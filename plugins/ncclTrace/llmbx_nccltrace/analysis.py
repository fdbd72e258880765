"""From paths to a report: finds the logs, reads them, and asks the frameworks' formats where the steps are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.errors import UsageError

from .paths import find_logs
from .report import Report
from .scan import Engine, read_logs
from .summary import summarise
from .tally import Tally

if TYPE_CHECKING:
    from llmbx.logs.parser import LogFormat

_MANY_LINES = 1_000_000


def read_report(
    paths: Sequence[Path], engine: Engine = "auto", note: Callable[[str], None] = lambda text: None
) -> Report:
    """The report of the logs in `paths`; `note` is told what a user may want to know about the reading.

    Raises `UsageError` when there is no line of NCCL's in them, `InfraError` when they cannot be read.
    """
    logs = find_logs(paths)
    tally, used = read_logs(logs, engine)
    if engine == "auto" and used == "python" and tally.lines > _MANY_LINES:
        note("there is no C compiler; with gcc or clang such a log is read many times faster")
    if _is_empty(tally):
        where = logs[0] if len(logs) == 1 else f"{len(logs)} files"
        raise UsageError(f"{where}: no line of NCCL's; NCCL_DEBUG=INFO makes it log (llmbx run … --with nccltrace)")
    return summarise(tally, logs, _formats() if tally.marks else ())


def _is_empty(tally: Tally) -> bool:
    seen = (tally.sizes, tally.cut, tally.facts, tally.channels, tally.errors, tally.callers, tally.tuning)
    return not any(seen) and not tally.nodes


def _formats() -> Sequence[LogFormat]:
    from llmbx.plugins.manager import load

    return load().log_formats()
