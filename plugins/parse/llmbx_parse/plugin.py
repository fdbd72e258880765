"""The hooks of the plugin parse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from llmbx.api import SourceReader, hookimpl

if TYPE_CHECKING:
    from .parsed_log import ParsedLog

LLMBX_API = (3, 0)


@hookimpl
def register_sources() -> list[type[SourceReader]]:
    """The readers of JSON lines, TensorBoard event files and offline runs of W&B."""
    from .sources.event_file import EventFile
    from .sources.jsonl import JsonLines
    from .sources.offline_run import OfflineRun

    return [JsonLines, EventFile, OfflineRun]


@hookimpl
def read_logs(path: Path) -> list[ParsedLog]:
    """The logs at a path, as `llmbx parse` reads them."""
    from .parsed_log import read_logs

    return list(read_logs(path))
