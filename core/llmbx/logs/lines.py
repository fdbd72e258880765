"""From the bytes of a log, in chunks of any size, to clean lines; and the labels that launchers put before them.

A line ends at LF, CR or CRLF, so that every redraw of a progress bar is a line of its own. ANSI escapes and NUL bytes
are removed, invalid UTF-8 becomes U+FFFD, empty lines are dropped. A line that was cut, because it is longer than
`LIMIT` bytes or because the log ends in it, carries `CUT` at its end: its last value cannot be trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

LIMIT = 1 << 16
"""The longest line that is kept, in bytes."""

CUT = "\N{HORIZONTAL ELLIPSIS}"
"""Ends a line that was cut."""

CHUNK = 1 << 20

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")

# Longest first where one form begins like another. Only what a launcher or collector adds; a framework's own
# "[2026-03-27 23:13:07]" stays.
_LABELS = re.compile(
    r"""\s*(?:
      \[?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]?\d*(?:Z|[+-]\d\d:?\d\d)?\]?\s   # 2025-11-20T14:55:23Z
    | \d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d[.,]?\d*\s                             # 2025-11-20 14:55:23,123
    | [A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d\s                              # Nov 20 14:55:23
    | \[(?:default|rank)(?P<tag>\d+)\]:\s?                                  # [default0]: [rank3]:
    | \[\d+,(?P<mpi>\d+)\]<std(?:out|err)>:\s?                              # [1,3]<stdout>:
    | (?P<task>\d+):\s                                                      # 12:
    | [A-Za-z][\w.-]*/\d+\ (?=\S)                                           # pretraining/0
    | [a-z][\w.-]*\d:\s                                                     # n001:
    )""",
    re.VERBOSE,
)


class LineReader:
    """Cuts a stream of bytes into clean lines. The chunks' boundaries make no difference to the lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that `chunk` completes."""
        data = chunk.replace(b"\0", b"") if b"\0" in chunk else chunk
        end = max(data.rfind(b"\n"), data.rfind(b"\r"))
        if end < 0:
            self._keep(data)
            return []
        block = self._rest + data[:end]
        self._rest = b""
        self._keep(data[end + 1 :])
        return _split(block)

    def close(self) -> list[str]:
        """The unfinished last line, if there is one, marked as cut."""
        rest, self._rest = self._rest, b""
        lines = _split(rest)
        return [line if line.endswith(CUT) else line + CUT for line in lines]

    def _keep(self, data: bytes) -> None:
        # One byte more than LIMIT is kept: enough to know, at the line's end, that it was too long.
        self._rest += data[: LIMIT + 1 - len(self._rest)]


def read_lines(path: Path, chunk: int = CHUNK) -> Iterator[str]:
    """The clean lines of a file, read in pieces of `chunk` bytes. Raises `OSError` as `open` does."""
    reader = LineReader()
    with path.open("rb") as file:
        while data := file.read(chunk):
            yield from reader.feed(data)
    yield from reader.close()


def split_label(line: str) -> tuple[str, int | None, str]:
    """(label, rank, text): what launchers and collectors put before a line, the rank it names, and the line itself.

    The label tells two writers apart even where it names no rank (a host, a replica); the innermost rank counts.
    """
    position, rank = 0, None
    while match := _LABELS.match(line, position):
        named = match["tag"] or match["mpi"] or match["task"]
        rank = int(named) if named else rank
        position = match.end()
    return line[:position], rank, line[position:]


def _split(block: bytes) -> list[str]:
    if b"\r" in block:
        block = block.replace(b"\r", b"\n")
    if len(block) > LIMIT and _has_long_line(block):
        block = b"\n".join(_bounded(line) for line in block.split(b"\n"))
    text = block.decode("utf-8", "replace")
    if "\x1b" in text:
        text = "\n".join(_ANSI.sub("", line) for line in text.split("\n"))
    return [line for line in text.split("\n") if line]


def _has_long_line(block: bytes) -> bool:
    start = 0
    while len(block) - start > LIMIT:
        end = block.rfind(b"\n", start, start + LIMIT + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def _bounded(line: bytes) -> bytes:
    return line if len(line) <= LIMIT else line[:LIMIT] + CUT.encode()
