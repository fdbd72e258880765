"""Convert the bytes of a log, in chunks of any size, to clean lines, and split off the labels that launchers add.

A line ends at LF, CR or CRLF, so every redraw of a progress bar is a separate line. ANSI escapes and NUL bytes are
removed, invalid UTF-8 becomes U+FFFD, and empty lines are dropped. A truncated line, because it is longer than `LIMIT`
bytes or because the log ends in it, ends with `CUT`: its last value must not be trusted. A number of more than
`LONGEST_NUMBER` digits is shortened to `KEPT_DIGITS`: a value beyond every limit, which any parser can convert.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from .printed import whole

if TYPE_CHECKING:
    from ..run_files import RunFile

LIMIT = 1 << 16
"""Maximum length of a line in bytes."""

CUT = "\N{HORIZONTAL ELLIPSIS}"
"""Marks the end of a truncated line."""

CHUNK = 1 << 20

LONGEST_NUMBER = 1000
"""Maximum length of a number in digits. Python converts up to 4300; no float has more than 309 before its point."""

KEPT_DIGITS = 100

_LONG_NUMBER = re.compile(r"(?<![0-9])[0-9]{1001,}+")

_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_])")

# The longer form first if two forms start alike. Only what launchers and collectors add; a framework's own
# "[2026-03-27 23:13:07]" is kept.
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
    """Splits a stream of bytes into clean lines. The result does not depend on the boundaries of the chunks.

    `long_lines` is the number of lines that were cut because of their length.
    """

    def __init__(self) -> None:
        self._rest = b""
        self.long_lines = 0

    def feed(self, chunk: bytes) -> list[str]:
        """The lines completed by `chunk`."""
        return split(self.block(chunk))

    def close(self) -> list[str]:
        """The unfinished last line, marked as truncated, if there is one."""
        return split(self.last_block())

    def block(self, chunk: bytes) -> bytes:
        """The lines completed by `chunk`, separated by LF; some may be empty."""
        data = chunk.replace(b"\0", b"") if b"\0" in chunk else chunk
        end = max(data.rfind(b"\n"), data.rfind(b"\r"))
        if end < 0:
            self._keep(data)
            return b""
        block = self._rest + data[:end]
        self._rest = b""
        self._keep(data[end + 1 :])
        return self._clean(block)

    def last_block(self) -> bytes:
        """The unfinished last line, marked as truncated, if there is one."""
        rest, self._rest = self._clean(self._rest), b""
        return rest if not rest or rest.endswith(CUT.encode()) else rest + CUT.encode()

    def _keep(self, data: bytes) -> None:
        # One byte more than LIMIT is kept, to detect at the end of the line that it was too long.
        self._rest += data[: LIMIT + 1 - len(self._rest)]

    def _clean(self, block: bytes) -> bytes:
        if b"\r" in block:
            block = block.replace(b"\r", b"\n")
        if len(block) > LIMIT and _has_long_line(block):
            block = b"\n".join(map(self._bounded, block.split(b"\n")))
        return _ANSI.sub(b"", block) if b"\x1b" in block else block

    def _bounded(self, line: bytes) -> bytes:
        if len(line) <= LIMIT:
            return line
        self.long_lines += 1
        return line[:LIMIT] + CUT.encode()


def split(block: bytes) -> list[str]:
    """The lines of a clean block."""
    lines = [line for line in block.decode("utf-8", "replace").split("\n") if line]
    if lines and len(max(lines, key=len)) > LONGEST_NUMBER:
        lines = [_with_short_numbers(line) for line in lines]
    return lines


def text_of(line: bytes) -> str:
    """The text of one line of a clean block."""
    return _with_short_numbers(line.decode("utf-8", "replace"))


def last_lines(path: Path | RunFile, size: int) -> list[str]:
    """The clean lines in the last `size` bytes of a file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return LineReader().feed(file.read(size) + b"\n")
    except OSError:
        return []


def line_number(path: Path | RunFile, count: int) -> int:
    """The number of the line of the file that has its clean line number `count`. Raises `OSError`.

    Lines are counted as `sed -n` does: at LF only, and with empty ones.
    """
    reader, number = LineReader(), 1
    with path.open("rb") as file:
        while part := file.readline(CHUNK):
            count -= len(reader.feed(part))
            if count <= 0:
                break
            number += part.endswith(b"\n")
    return number


def shortened(text: str, most: int = 60) -> str:
    """A text of a log for one line of a message: no control characters, cut after `most` characters."""
    clean = "".join(c if c.isprintable() else "?" for c in text[: most + 1])
    return clean if len(clean) <= most else f"{clean[:most]}{CUT}"


def split_label(line: str) -> tuple[str, int | None, str]:
    """Split a line into (label, rank, text): the label added by launchers and collectors, its rank, and the original
    line.

    The label distinguishes two writers even if it contains no rank (a host, a replica); the innermost rank is used.
    """
    position, rank = 0, None
    while match := _LABELS.match(line, position):
        named = match["tag"] or match["mpi"] or match["task"]
        rank = whole(named) if named else rank
        position = match.end()
    return line[:position], rank, line[position:]


def _with_short_numbers(line: str) -> str:
    if len(line) <= LONGEST_NUMBER:
        return line
    return _LONG_NUMBER.sub(lambda number: number[0][:KEPT_DIGITS], line)


def _has_long_line(block: bytes) -> bool:
    start = 0
    while len(block) - start > LIMIT:
        end = block.rfind(b"\n", start, start + LIMIT + 1)
        if end < 0:
            return True
        start = end + 1
    return False


_RANK = re.compile(r"rank[-_.]?(\d{1,7})(?!\d)", re.IGNORECASE)


class Line(str):
    """A clean line of a log: a string that knows where it comes from. What is not known is None."""

    __slots__ = ("arrived", "source")

    arrived: float | None
    """When it was read from the growing file, in epoch seconds of a clock that is not set while the run is followed;
    it was written earlier. None if the run was not followed.
    """
    source: str | None
    """Its file, relative to the run's folder."""

    def __new__(cls, text: str, arrived: float | None = None, source: str | None = None) -> Self:
        line = super().__new__(cls, text)
        line.arrived, line.source = arrived, source
        return line

    @classmethod
    def of(cls, text: str) -> list[Self]:
        """The clean lines of a log's text, as a parser gets them; an unfinished last line is cut."""
        reader = LineReader()
        return [cls(line) for line in (*reader.feed(text.encode()), *reader.close())]

    @property
    def rank(self) -> int | None:
        """The rank that printed it, if its label or else the name of its file says so."""
        rank = split_label(self)[1]
        return rank_in(self.source or "") if rank is None else rank

    @property
    def stream(self) -> Literal["stdout", "stderr"] | None:
        """The stream that it was printed on, if its label or else the name of its file says so."""
        label = split_label(self)[0]
        if "<stdout>" in label:
            return "stdout"
        return "stderr" if "<stderr>" in label else stream_in(self.source or "")


def as_lines(texts: Iterable[str], arrived: float | None, source: str) -> Iterator[Line]:
    """Lines of a file with what is known about them. The loop is written for logs of millions of lines."""
    new = str.__new__
    for text in texts:
        line = new(Line, text)
        line.arrived = arrived
        line.source = source
        yield line


def rank_in(name: str) -> int | None:
    """The rank that the path of a file names last: `rank-3`, `rank_3`, `rank3`; None if it names none."""
    ranks = _RANK.findall(name)
    return int(ranks[-1]) if ranks else None


def stream_in(name: str) -> Literal["stdout", "stderr"] | None:
    """The stream that the name of a file states; None if it states none."""
    lower = name.lower()
    if lower.endswith(".err") or "stderr" in lower:
        return "stderr"
    return "stdout" if "stdout" in lower else None
