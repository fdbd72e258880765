"""TensorBoard event files: TFRecord frames with one Event message each.

A frame is the length (8 bytes), its checksum (4), the message and its checksum (4), all little-endian (TensorFlow,
lib/io/record_writer). The numbers of the fields are those of TensorFlow's event.proto, summary.proto and tensor.proto.
Scalars are read, whether they are stored as `simple_value` or as a tensor; images, histograms and text are not.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ...model import SourceRecord
from . import wire
from .base import LIMIT, Faults
from .crc32c import masked

HEAD, TAIL = 12, 4

_FORMATS = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}
"""Number of a tensor's type (float, double, int32, int64) -> format of one value."""

_LISTS = {5: "<f", 6: "<d"}
"""Field of a tensor with a list of floats or doubles -> format of one value."""


class EventFile:
    """Reads a TensorBoard event file. See `base.Reader`."""

    def __init__(self, source: str, rank: int | None) -> None:
        self.faults = Faults()
        self._source, self._rank = source, rank
        self._rest = b""
        self._skip = self._at = 0

    def feed(self, chunk: bytes) -> list[SourceRecord]:
        """The records of the frames that `chunk` completes."""
        if self.faults.damaged_at is not None:
            return []
        skipped = min(self._skip, len(chunk))
        self._skip -= skipped
        data, at = self._rest + chunk[skipped:], 0
        self._at += skipped
        found = []
        while len(data) - at >= HEAD and (length := self._length(data, at)) is not None:
            end = at + HEAD + length + TAIL
            if length > LIMIT:
                self.faults.too_long += 1
                self._skip, end = max(0, end - len(data)), min(end, len(data))
            elif end > len(data):
                break
            else:
                found += self._frame(data[at + HEAD : end - TAIL], data[end - TAIL : end], self._at + at)
            at = end
        self._rest, self._at = data[at:], self._at + at
        return found

    def close(self) -> list[SourceRecord]:
        """Nothing: a frame is complete or not."""
        self.faults.incomplete = bool(self._rest or self._skip) and self.faults.damaged_at is None
        return []

    def _length(self, data: bytes, at: int) -> int | None:
        """The length of the frame's message; None if it is damaged: the next frame cannot be found then."""
        length, check = struct.unpack_from("<QI", data, at)
        if masked(data[at : at + 8]) == check:
            return int(length)
        self.faults.damaged_at = self._at + at
        return None

    def _frame(self, message: bytes, check: bytes, at: int) -> list[SourceRecord]:
        try:
            if struct.pack("<I", masked(message)) != check:
                raise ValueError("its checksum differs")
            step, wall_time, values = _event(message)
        except ValueError as error:
            self.faults.note_invalid(f"byte {at}: {error}")
            return []
        if not values:
            return []
        return [SourceRecord(source=self._source, rank=self._rank, step=step, wall_time=wall_time, values={**values})]


def _event(message: bytes) -> tuple[int, float | None, Mapping[str, float]]:
    """Step, wall time and scalars of an Event."""
    step, wall_time = 0, None
    values: dict[str, float] = {}
    for field, kind, value in wire.fields(message):
        if field == 1 and kind == wire.FIXED64:
            wall_time = wire.number(kind, value)
        elif field == 2 and isinstance(value, int):
            step = wire.signed(value)
        elif field == 5 and isinstance(value, bytes):
            for inner, _, summary in wire.fields(value):
                if inner == 1 and isinstance(summary, bytes):
                    values |= _scalar(summary)
    return step, wall_time, values


def _scalar(summary: bytes) -> dict[str, float]:
    """Tag and value of a Summary.Value; empty if it is not a scalar."""
    tag, found = "", None
    for field, kind, value in wire.fields(summary):
        if field == 1:
            tag = wire.text(value)
        elif field == 2 and kind == wire.FIXED32:
            found = wire.number(kind, value)
        elif field == 8 and isinstance(value, bytes):
            found = _tensor(value)
    return {tag: found} if tag and found is not None else {}


def _tensor(message: bytes) -> float | None:
    """The value of a TensorProto with one number; None for others."""
    form, content = "", b""
    for field, _, value in wire.fields(message):
        if field == 1 and isinstance(value, int):
            form = _FORMATS.get(value, "")
        elif field == 4 and isinstance(value, bytes):
            content = value
        elif field in _LISTS and isinstance(value, bytes):
            form, content = _LISTS[field], value
    if not form or len(content) != struct.calcsize(form):
        return None
    return float(struct.unpack(form, content)[0])
