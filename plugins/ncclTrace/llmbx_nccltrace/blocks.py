"""Reads a stretch of a file in blocks of whole lines, always into the same memory."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = 1 << 19
"""Bytes that are read at once; a line that is longer is counted and passed over."""

SLACK = 64
"""Bytes behind a block that may be looked at (what they hold means nothing)."""


class Stretch(NamedTuple):
    """The lines of a file that begin in [start, stop); stop None is the end of the file. `origin` see `Reader`."""

    path: Path
    start: int = 0
    stop: int | None = None
    origin: bytes = b""


class Blocks:
    """The blocks of one stretch: each `end` of `for end in blocks` says that `memory[:end]` holds whole lines.

    `long_lines` counts the lines that did not fit. Raises `OSError` as reading does.
    """

    def __init__(self, stretch: Stretch, block: int = BLOCK) -> None:
        self.stretch = stretch
        self.block = block
        self.memory = bytearray(block + SLACK)
        self.long_lines = 0

    def __iter__(self) -> Iterator[int]:
        with _opened(self.stretch.path) as file:
            yield from self._blocks(file, _seek_line(file, self.stretch.start))

    def _blocks(self, file: io.RawIOBase | gzip.GzipFile, at: int) -> Iterator[int]:
        """`at` is the place in the file of `memory[0]`, `kept` how much of an unfinished line lies there."""
        view, stop, kept, inside_long = memoryview(self.memory)[: self.block], self.stretch.stop, 0, False
        while stop is None or at < stop or inside_long:
            read = file.readinto(view[kept:]) or 0
            have = kept + read
            if not read:
                yield from self._rest(kept)
                return
            if inside_long:
                passed = self.memory.find(b"\n", 0, have) + 1 or have
                inside_long = self.memory[passed - 1] != 10
                at, kept = at + passed, self._move(passed, have)
                continue
            end = self._last_end(have, None if stop is None else stop - at)
            if end:
                yield end
            elif have == self.block:
                self.long_lines += 1
                end, inside_long = have, True
            at, kept = at + end, self._move(end, have)

    def _last_end(self, have: int, stop: int | None) -> int:
        """Where the last whole line ends of those that begin before `stop`; 0 if none is whole."""
        if stop is not None and stop <= have and (end := self.memory.find(b"\n", stop - 1, have) + 1):
            return end
        return self.memory.rfind(b"\n", 0, have) + 1

    def _move(self, start: int, stop: int) -> int:
        self.memory[: stop - start] = self.memory[start:stop]
        return stop - start

    def _rest(self, kept: int) -> Iterator[int]:
        if kept:
            self.memory[kept] = 10
            yield kept + 1


def _opened(path: Path) -> io.RawIOBase | gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb", buffering=0)


def _seek_line(file: io.RawIOBase | gzip.GzipFile, start: int) -> int:
    """Go to the first line that begins at or after `start`; its place."""
    if not start:
        return 0
    at = start - 1
    file.seek(at)
    while part := file.read(1 << 14):
        newline = part.find(b"\n")
        if newline >= 0:
            return file.seek(at + newline + 1)
        at += len(part)
    return at
