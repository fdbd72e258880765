"""The pure Python engine: one regular expression matches the clean lines, `Reader` reads the others."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from .blocks import Blocks, Chunk
from .counts import LogCounts
from .definitions import message_bytes
from .grammar import CLEAN, COUNTED, FIGURES, address, canonical, messages
from .reader import LIMIT, Reader

Common = tuple[bytes, bytes]
"""The groups of `CLEAN`, which are the same for equal calls."""

_MAX_CACHED = 20_000

_PART = 1 << 15
"""Bytes per match. A part that contains any other line is matched again with a slower loop."""


class _Record(NamedTuple):
    """A parsed clean line: the first arguments of `LogCounts.add_record`."""

    process: bytes
    communicator: int | None
    operation: str
    datatype: int
    ranks: int
    elements: int


class PythonCounter:
    """Counts one chunk. Clean lines are collected in `pending` until a line is read that depends on their order."""

    def __init__(self, origin: bytes = b"") -> None:
        self.counts = LogCounts()
        self.pending: Counter[Common] = Counter()
        self.reader = Reader(self.counts, self._totals, lambda caller: self.flush(), origin)
        self._headers: dict[bytes, tuple[bytes, str] | None] = {}

    def run(self, blocks: Blocks) -> LogCounts:
        """Count all blocks."""
        for end in blocks:
            start = 0
            while start < end:
                stop = blocks.memory.find(b"\n", min(start + _PART, end - 1), end) + 1
                self._part(bytes(memoryview(blocks.memory)[start:stop]))
                start = stop
        self.flush()
        self.counts.long_lines = blocks.long_lines
        self.counts.lines += blocks.long_lines
        return self.counts

    def _part(self, block: bytes) -> None:
        lines = block.count(b"\n")
        self.counts.lines += lines
        records = CLEAN.findall(block)
        if len(records) == lines and len(block) <= LIMIT:  # no match spans several lines
            self.pending.update(records)
        else:
            self._mixed(block)
        if len(self.pending) > _MAX_CACHED:
            self.flush()

    def _mixed(self, block: bytes) -> None:
        last = 0
        for match in CLEAN.finditer(block):
            start, end = match.span()
            if block.find(b"\n", start, end) != end - 1 or end - start > LIMIT:
                continue
            if start != last:
                self._read_lines(block[last:start])
            self.pending[match[1], match[2]] += 1
            last = end
        self._read_lines(block[last:])

    def _read_lines(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            if line:
                self.reader.read_line(line)

    def _totals(self) -> tuple[int, int]:
        calls, volume = self.counts.calls, self.counts.volume
        for common, times in self.pending.items():
            if record := self._parse(common):
                calls += times
                size = message_bytes(record.operation, record.datatype, record.elements, record.ranks)
                volume += times * (size or 0)
            else:
                self.flush()
                return self.counts.calls, self.counts.volume
        return calls, volume

    def flush(self) -> None:
        """Move the pending lines into the counts."""
        for common, times in self.pending.items():
            if record := self._parse(common):
                self.counts.add_record(*record, times)
            else:
                self.reader.repeated(canonical(*common), times)
        self.pending.clear()

    def _parse(self, common: Common) -> _Record | None:
        """Parse a match of `CLEAN`; None if a field is not valid."""
        before, after = common
        if before not in self._headers:
            if len(self._headers) >= _MAX_CACHED:
                self._headers.clear()
            self._headers[before] = self._parse_header(before)
        header, figures = self._headers[before], FIGURES.fullmatch(after)
        if header is None or figures is None:
            return None
        count, datatype, _, pointer, ranks = figures.groups()
        return _Record(header[0], address(pointer), header[1], int(datatype), int(ranks), int(count))

    def _parse_header(self, before: bytes) -> tuple[bytes, str] | None:
        parts = list(messages(before + COUNTED))
        name = before.rpartition(b" ")[2]
        if len(parts) != 1 or parts[0].text != name + COUNTED or not name.isascii():
            return None
        return self.reader.qualify(parts[0].process), name.decode()


def count(chunk: Chunk) -> LogCounts:
    """Count a chunk in pure Python."""
    return PythonCounter(chunk.origin).run(Blocks(chunk))
