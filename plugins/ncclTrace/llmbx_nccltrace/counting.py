"""The pure Python engine: one regular expression finds the clean lines, `Reader` reads the others."""

from __future__ import annotations

from collections import Counter

from .blocks import Blocks, Stretch
from .grammar import CLEAN, canonical
from .reader import Reader
from .tally import Tally

Common = tuple[bytes, bytes]
"""What equal clean lines have in common: the groups of `CLEAN`."""

_MOST_PENDING = 20_000


class Counting:
    """Counts one stretch. Clean lines wait in `pending` until something depends on their order."""

    def __init__(self, origin: bytes = b"") -> None:
        self.tally = Tally()
        self.pending: Counter[Common] = Counter()
        self.reader = Reader(self.tally, self._totals, lambda caller: self.flush(), origin)
        self._worth: dict[Common, tuple[int, int]] = {}

    def run(self, blocks: Blocks) -> Tally:
        """Count all blocks."""
        for end in blocks:
            self._block(bytes(memoryview(blocks.memory)[:end]))
        self.flush()
        self.tally.long_lines = blocks.long_lines
        self.tally.lines += blocks.long_lines
        return self.tally

    def _block(self, block: bytes) -> None:
        lines = block.count(b"\n")
        self.tally.lines += lines
        found = CLEAN.findall(block)
        if len(found) == lines:  # so that no match has a line end inside
            self.pending.update(found)
        else:
            self._mixed(block)
        if len(self.pending) > _MOST_PENDING:
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
            worth = self._worth.get(common) or self._learn(common)
            calls += times * worth[0]
            volume += times * worth[1]
        return calls, volume

    def _learn(self, common: Common) -> tuple[int, int]:
        alone = Tally()
        Reader(alone, lambda: (0, 0), lambda caller: None).repeated(canonical(*common), 1)
        self._worth[common] = alone.calls, alone.volume
        return self._worth[common]

    def flush(self) -> None:
        """Move what waits into the tally."""
        for common, times in self.pending.items():
            self.reader.repeated(canonical(*common), times)
        self.pending.clear()
        self._worth.clear()


def count(stretch: Stretch) -> Tally:
    """What a stretch shows, read with Python alone."""
    return Counting(stretch.origin).run(Blocks(stretch))
