"""The hooks of the plugin parse."""

from __future__ import annotations

from llmbx.api import SourceReader, hookimpl

LLMBX_API = (2, 0)


@hookimpl
def register_sources() -> list[type[SourceReader]]:
    """The readers of JSON lines, TensorBoard event files and offline runs of W&B."""
    from .sources.event_file import EventFile
    from .sources.jsonl import JsonLines
    from .sources.offline_run import OfflineRun

    return [JsonLines, EventFile, OfflineRun]
