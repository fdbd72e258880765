"""JSON lines: one object per line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ...model import SourceRecord
from ..lines import CHUNK
from .base import LIMIT, Faults, as_object, real_number, whole_number


class JsonLines:
    """Reads a file with one JSON object per line; empty lines are ignored. See `base.Reader`."""

    def __init__(self, source: str, rank: int | None) -> None:
        self.faults = Faults()
        self._source, self._rank = source, rank
        self._rest = b""
        self._skipping = False
        self._line = self._at = 0

    def read(self, file: BinaryIO) -> Iterator[SourceRecord]:
        """The records of the lines that were completed since."""
        file.seek(self._at)
        while chunk := file.read(CHUNK):
            self._at += len(chunk)
            yield from self._feed(chunk)

    def _feed(self, chunk: bytes) -> Iterator[SourceRecord]:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield from self._finish(line)
        self._keep(rest)

    def close(self) -> list[SourceRecord]:
        """The record of a last line without a line end, if it is an object."""
        rest, self._rest = self._rest, b""
        if self._skipping or not rest.strip():
            return []
        known = as_object(rest)
        self.faults.incomplete = known is None
        return [] if known is None else [self._record(known)]

    def _finish(self, end: bytes) -> list[SourceRecord]:
        self._line += 1
        self._keep(end)
        line, self._rest = self._rest, b""
        if self._skipping:
            self._skipping = False
            return []
        if not line.strip():
            return []
        known = as_object(line)
        if known is None:
            self.faults.note_invalid(f"line {self._line} is not a JSON object")
            return []
        return [self._record(known)]

    def _keep(self, part: bytes) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(part) > LIMIT:
            self.faults.too_long += 1
            self._rest, self._skipping = b"", True
        else:
            self._rest += part

    def _record(self, values: dict[str, object]) -> SourceRecord:
        step, at = whole_number(values, "step"), real_number(values, "wall_time")
        return SourceRecord(source=self._source, rank=self._rank, step=step, wall_time=at, values=values)
