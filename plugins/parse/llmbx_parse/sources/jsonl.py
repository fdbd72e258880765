"""JSON lines: one object per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from llmbx.api import SourceReader, SourceRecord

from .values import as_object, real_number, whole_number

CHUNK = 1 << 20


class JsonLines(SourceReader):
    """Reads a file with one JSON object per line; empty lines are ignored."""

    kind = "jsonl"
    is_text = True

    def __init__(self, source: str, rank: int | None) -> None:
        super().__init__(source, rank)
        self._begun = b""
        self._skipping = False
        self._line = self._at = 0

    @classmethod
    def recognizes(cls, name: str) -> bool:
        """By the suffix .jsonl."""
        return name.endswith(".jsonl")

    def read(self, file: BinaryIO) -> Iterator[SourceRecord]:
        """The records of the lines that were completed since."""
        file.seek(self._at)
        while chunk := file.read(CHUNK):
            self._at += len(chunk)
            yield from self._feed(chunk)

    def _feed(self, chunk: bytes) -> Iterator[SourceRecord]:
        *lines, begun = chunk.split(b"\n")
        for line in lines:
            yield from self._finish(line)
        self._keep(begun)

    def close(self) -> list[SourceRecord]:
        """The record of a last line without a line end, if it is an object."""
        begun, self._begun = self._begun, b""
        if self._skipping or not begun.strip():
            return []
        values = as_object(begun)
        self.faults.incomplete = values is None
        return [] if values is None else [self._record(values)]

    def _finish(self, end: bytes) -> list[SourceRecord]:
        self._line += 1
        self._keep(end)
        line, self._begun = self._begun, b""
        if self._skipping:
            self._skipping = False
            return []
        if not line.strip():
            return []
        values = as_object(line)
        if values is None:
            self.faults.note_invalid(f"line {self._line} is not a JSON object")
            return []
        return [self._record(values)]

    def _keep(self, part: bytes) -> None:
        if self._skipping:
            return
        if len(self._begun) + len(part) > self.limit:
            self.faults.too_long += 1
            self._begun, self._skipping = b"", True
        else:
            self._begun += part

    def _record(self, values: dict[str, object]) -> SourceRecord:
        return SourceRecord(
            source=self.source,
            rank=self.rank,
            step=whole_number(values, "step"),
            wall_time=real_number(values, "wall_time"),
            values=values,
        )
