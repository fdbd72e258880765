"""Read a chunk of a file in blocks of whole lines, reusing one buffer."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from llmbx.api import RunFile

BLOCK = 1 << 19
"""Bytes per read; longer lines are counted and skipped."""

SLACK = 64
"""Bytes after a block that the scanner may read; their content is undefined."""


class Chunk(NamedTuple):
    """The lines of a file that begin in [start, stop), in bytes; `stop` None is the end of the file.

    `origin` is the prefix for processes without a host, see `Reader`.
    """

    path: Path | RunFile
    start: int = 0
    stop: int | None = None
    origin: bytes = b""


def new_memory(block: int = BLOCK) -> bytearray:
    """Return memory for blocks."""
    return bytearray(block + SLACK)


class Blocks:
    """Iterator over the blocks of one chunk: after each `end` that it yields, `memory[:end]` contains whole lines.

    `long_lines` counts the lines that are longer than a block. Raises `OSError` if the file cannot be read.
    """

    def __init__(self, chunk: Chunk, block: int = BLOCK, memory: bytearray | None = None) -> None:
        """`memory` is that of earlier blocks of the same size."""
        self.chunk = chunk
        self.block = block
        self.memory = memory or new_memory(block)
        self.long_lines = 0

    def __iter__(self) -> Iterator[int]:
        with _open(self.chunk.path) as file:
            yield from self._blocks(file, _seek_line(file, self.chunk.start))

    def _blocks(self, file: io.RawIOBase | gzip.GzipFile, at: int) -> Iterator[int]:
        """`at` is the file offset of `memory[0]`, `kept` the length of the incomplete line at its start."""
        view, stop, kept, inside_long = memoryview(self.memory)[: self.block], self.chunk.stop, 0, False
        while stop is None or at < stop or inside_long:
            read = file.readinto(view[kept:]) or 0
            have = kept + read
            if not read:
                yield from self._rest(kept)
                return
            if inside_long:
                skipped = self.memory.find(b"\n", 0, have) + 1 or have
                inside_long = self.memory[skipped - 1] != 10
                at, kept = at + skipped, self._move(skipped, have)
                continue
            end = self._last_end(have, None if stop is None else stop - at)
            if end:
                yield end
            elif have == self.block:
                self.long_lines += 1
                end, inside_long = have, True
            at, kept = at + end, self._move(end, have)

    def _last_end(self, have: int, stop: int | None) -> int:
        """Return the end of the last complete line that begins before `stop`; 0 if there is none."""
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


def _open(path: Path | RunFile) -> io.RawIOBase | gzip.GzipFile:
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=path.open("rb"))
    raw: io.RawIOBase = path.open("rb").detach()  # type: ignore[attr-defined]
    return raw


def _seek_line(file: io.RawIOBase | gzip.GzipFile, start: int) -> int:
    """Seek to the first line that begins at or after `start` and return its offset."""
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
