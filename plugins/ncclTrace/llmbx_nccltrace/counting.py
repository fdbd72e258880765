"""The pure Python engine: one regular expression finds the clean lines, `Reader` reads the others."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from .blocks import Blocks, Stretch
from .facts import message_bytes
from .grammar import CLEAN, COUNTED, FIGURES, address, canonical, messages
from .reader import Reader
from .tally import Tally

Common = tuple[bytes, bytes]
"""What equal clean lines have in common: the groups of `CLEAN`."""

_MOST_KNOWN = 20_000

_PART = 1 << 15
"""Bytes that are matched at once; one other line among them makes the match be done again, slower."""


class _Record(NamedTuple):
    """A clean line, understood: the first arguments of `Tally.record`."""

    who: bytes
    communicator: int | None
    operation: str
    datatype: int
    ranks: int
    elements: int


class Counting:
    """Counts one stretch. Clean lines wait in `pending` until something depends on their order."""

    def __init__(self, origin: bytes = b"") -> None:
        self.tally = Tally()
        self.pending: Counter[Common] = Counter()
        self.reader = Reader(self.tally, self._totals, lambda caller: self.flush(), origin)
        self._speakers: dict[bytes, tuple[bytes, str] | None] = {}

    def run(self, blocks: Blocks) -> Tally:
        """Count all blocks."""
        for end in blocks:
            start = 0
            while start < end:
                stop = blocks.memory.find(b"\n", min(start + _PART, end - 1), end) + 1
                self._part(bytes(memoryview(blocks.memory)[start:stop]))
                start = stop
        self.flush()
        self.tally.long_lines = blocks.long_lines
        self.tally.lines += blocks.long_lines
        return self.tally

    def _part(self, block: bytes) -> None:
        lines = block.count(b"\n")
        self.tally.lines += lines
        found = CLEAN.findall(block)
        if len(found) == lines:  # so that no match has a line end inside
            self.pending.update(found)
        else:
            self._mixed(block)
        if len(self.pending) > _MOST_KNOWN:
            self.flush()

    def _mixed(self, block: bytes) -> None:
        last = 0
        for match in CLEAN.finditer(block):
            start, end = match.span()
            if block.find(b"\n", start, end) != end - 1:
                continue
            if start != last:
                self._odd(block[last:start])
            self.pending[match[1], match[2]] += 1
            last = end
        self._odd(block[last:])

    def _odd(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            if line:
                self.reader.odd(line)

    def _totals(self) -> tuple[int, int]:
        calls, volume = self.tally.calls, self.tally.volume
        for common, times in self.pending.items():
            if record := self._understood(common):
                calls += times
                size = message_bytes(record.operation, record.datatype, record.elements, record.ranks)
                volume += times * (size or 0)
            else:
                self.flush()
                return self.tally.calls, self.tally.volume
        return calls, volume

    def flush(self) -> None:
        """Move what waits into the tally."""
        for common, times in self.pending.items():
            if record := self._understood(common):
                self.tally.record(*record, times)
            else:
                self.reader.repeated(canonical(*common), times)
        self.pending.clear()

    def _understood(self, common: Common) -> _Record | None:
        """The record, unless the line is not as clean as it looked."""
        before, after = common
        if before not in self._speakers:
            if len(self._speakers) >= _MOST_KNOWN:
                self._speakers.clear()
            self._speakers[before] = self._speaker(before)
        speaker, figures = self._speakers[before], FIGURES.fullmatch(after)
        if speaker is None or figures is None:
            return None
        count, datatype, pointer, ranks = figures.groups()
        return _Record(speaker[0], address(pointer), speaker[1], int(datatype), int(ranks), int(count))

    def _speaker(self, before: bytes) -> tuple[bytes, str] | None:
        said = list(messages(before + COUNTED))
        name = before.rpartition(b" ")[2]
        if len(said) != 1 or said[0].text != name + COUNTED or not name.isascii():
            return None
        return self.reader.named(said[0].who), name.decode()


def count(stretch: Stretch) -> Tally:
    """What a stretch shows, read with Python alone."""
    return Counting(stretch.origin).run(Blocks(stretch))
