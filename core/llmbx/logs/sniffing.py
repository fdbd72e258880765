"""Recognize the format of a log by its first and last lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..run_files import RunFile
from .lines import LineReader

if TYPE_CHECKING:
    from .parser import LogFormat

SNIFF = 256 * 1024
"""Bytes from the start and the end of a log that are passed to `LogFormat.sniff`."""


def sniff(path: Path | RunFile, formats: Sequence[LogFormat]) -> LogFormat | None:
    """The format that recognizes the most lines of the log; None if none recognizes any.

    Raises `OSError`.
    """
    text = ends(path)
    scores = [(format_.sniff(text), -place) for place, format_ in enumerate(formats)]
    best = max(scores, default=(0, 0))
    return formats[-best[1]] if best[0] > 0 else None


def ends(path: Path | RunFile) -> str:
    """The first and the last 256 KiB of a file as clean text. Raises `OSError`."""
    with path.open("rb") as file:
        head = file.read(SNIFF)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(SNIFF, size - SNIFF))
        tail = file.read()
    reader, gap = LineReader(), b"\n" if size > 2 * SNIFF else b""
    return "\n".join([*reader.feed(head + gap + tail), *reader.close()])
