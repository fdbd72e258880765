"""Files of an offline run of W&B (`run-*.wandb`): a log of Record messages, of which the history is read.

After a head of 7 bytes the file has blocks of 32 KiB, as LevelDB's logs do (LevelDB, doc/log_format.md): a record is
split into parts with a checksum (4 bytes), a length (2) and a type (1: whole, 2: first, 3: middle, 4: last); the end of
a block that is too short for a part is empty. The checksum is CRC-32 over type and data. The numbers of the fields are
those of wandb_internal.proto.
"""

from __future__ import annotations

import struct
import zlib

from ...model import SourceRecord
from . import wire
from .base import LIMIT, Faults, as_json, real_number, whole_number

HEAD = b":W&B"
HEAD_LENGTH = 7
BLOCK = 1 << 15
PART = 7

_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class OfflineRun:
    """Reads a file of an offline run of W&B. See `base.Reader`."""

    def __init__(self, source: str, rank: int | None) -> None:
        self.faults = Faults()
        self._source, self._rank = source, rank
        self._rest, self._at = b"", 0
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[SourceRecord]:
        """The records that `chunk` completes."""
        if self.faults.damaged_at is not None:
            return []
        data, at, found = self._rest + chunk, 0, list[SourceRecord]()
        while (end := self._end(data, at)) is not None:
            found += self._piece(data[at:end], self._at + at)
            at = end
        self._rest, self._at = data[at:], self._at + at
        return found

    def close(self) -> list[SourceRecord]:
        """Nothing: a record is complete or not."""
        self.faults.incomplete = bool(self._rest.strip(b"\0") or self._parts) and self.faults.damaged_at is None
        return []

    def _end(self, data: bytes, at: int) -> int | None:
        """Where the piece at `at` (the head, a part or the empty end of a block) ends; None if it is incomplete."""
        place, known = self._at + at, len(data) - at
        left = BLOCK - place % BLOCK
        if self.faults.damaged_at is not None:
            return None
        if place == 0:
            length = HEAD_LENGTH
        elif left < PART:
            length = left
        elif known < PART:
            return None
        else:
            length = PART + int.from_bytes(data[at + 4 : at + 6], "little")
            if length > left:
                self.faults.damaged_at = place
                return None
        return at + length if known >= length else None

    def _piece(self, piece: bytes, place: int) -> list[SourceRecord]:
        if place == 0:
            if not piece.startswith(HEAD):
                self.faults.damaged_at = 0
            return []
        if len(piece) < PART or not any(piece[:PART]):  # the end of a block, or space that was reserved for later
            return []
        check, _, kind = struct.unpack_from("<IHB", piece)
        if zlib.crc32(piece[6:]) != check:
            self.faults.note_invalid(f"byte {place}: its checksum differs")
            self._parts, self._length = [], 0
            return []
        return self._part(kind, piece[PART:], place)

    def _part(self, kind: int, data: bytes, place: int) -> list[SourceRecord]:
        if kind in (_WHOLE, _FIRST):
            self._parts, self._length = [], 0
        elif not self._length:
            return []  # the rest of a record whose beginning was damaged
        self._length += len(data)
        if self._length <= LIMIT:
            self._parts.append(data)
        else:
            self._parts = []
        if kind not in (_WHOLE, _LAST):
            return []
        message, too_long = b"".join(self._parts), self._length > LIMIT
        self._parts, self._length = [], 0
        self.faults.too_long += too_long
        return [] if too_long else self._message(message, place)

    def _message(self, message: bytes, place: int) -> list[SourceRecord]:
        try:
            values = _history(message)
        except ValueError as error:
            self.faults.note_invalid(f"byte {place}: {error}")
            return []
        if not values:
            return []
        step, at = whole_number(values, "_step"), real_number(values, "_timestamp")
        return [SourceRecord(source=self._source, rank=self._rank, step=step, wall_time=at, values=values)]


def _history(message: bytes) -> dict[str, object]:
    """The values of a history record by name; empty for other records. Nested names are joined by dots."""
    found: dict[str, object] = {}
    for field, _, history in wire.fields(message):
        if field != 2 or not isinstance(history, bytes):
            continue
        for inner, _, value in wire.fields(history):
            if inner == 1 and isinstance(value, bytes):
                found |= _item(value)
            elif inner == 2 and isinstance(value, bytes):
                found |= {"_step": _step(value)}
    return found


def _step(message: bytes) -> int:
    """The number of a HistoryStep; 0 is not written."""
    return next((wire.signed(n) for field, _, n in wire.fields(message) if field == 1 and isinstance(n, int)), 0)


def _item(message: bytes) -> dict[str, object]:
    names, text = [], ""
    for field, _, value in wire.fields(message):
        if field in (1, 2):
            names.append(wire.text(value))
        elif field == 16:
            text = wire.text(value)
    return {".".join(name for name in names if name): as_json(text)} if any(names) else {}
