"""TensorBoard event files, read by the package `tensorboard`: the scalars of each event.

Scalars may be stored as `simple_value` or as a tensor with one number; images, histograms and text
are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from llmbx.api import SourceReader, SourceRecord
from llmbx.api.verbs import imported


class EventFile(SourceReader):
    """Reads a TensorBoard event file. Raises `UsageError` if the package is not installed."""

    kind = "tensorboard"

    def __init__(self, source: str, rank: int | None) -> None:
        super().__init__(source, rank)
        self._at = self._size = 0
        # These two read the format without TensorFlow. `EventFileLoader`, which uses them, opens
        # the file by its name and does not say what is wrong with it.
        reader = imported("tensorboard.compat.tensorflow_stub.pywrap_tensorflow")
        self._records = reader.PyRecordReader_New
        self._errors = imported("tensorboard.compat.tensorflow_stub.errors")
        self._event = imported("tensorboard.compat.proto.event_pb2").Event
        self._tensors = imported("tensorboard.util.tensor_util")

    @classmethod
    def recognizes(cls, name: str) -> bool:
        """By the part `.tfevents.` of the name."""
        return ".tfevents." in name

    def read(self, file: BinaryIO) -> Iterator[SourceRecord]:
        """The events that were completed since."""
        self._size = os.fstat(file.fileno()).st_size
        file.seek(self._at)
        records = self._records(os.devnull)
        records.file_handle = _Bounded(file, self._size)
        while self.faults.damaged_at is None and self._has_next(records, file):
            self._at = file.tell()
            yield from self._scalars(records.record())

    def close(self) -> list[SourceRecord]:
        """Nothing: an event is complete or not."""
        self.faults.incomplete = self._at < self._size and self.faults.damaged_at is None
        return []

    def _has_next(self, records: Any, file: BinaryIO) -> bool:
        """Read the next event; return whether there is one. None is found behind a damaged one."""
        try:
            records.GetNext()
        except self._errors.OutOfRangeError:
            return False
        except self._errors.DataLossError:
            if file.tell() < self._size:
                self.faults.damaged_at = self._at
            return False
        return True

    def _scalars(self, message: bytes) -> Iterator[SourceRecord]:
        try:
            event = self._event.FromString(message)
        except Exception as error:  # protobuf's own, which differs between its implementations
            self.faults.note_invalid(f"before byte {self._at}: {error}")
            return
        scalars = {value.tag: self._scalar(value) for value in event.summary.value if value.tag}
        values: dict[str, object] = {
            tag: scalar for tag, scalar in scalars.items() if scalar is not None
        }
        if values:
            yield SourceRecord(
                source=self.source,
                rank=self.rank,
                step=event.step,
                wall_time=event.wall_time or None,
                values=values,
            )

    def _scalar(self, value: Any) -> float | None:
        """The number of a summary's value; None if it is not a scalar."""
        field = value.WhichOneof("value")
        if field == "simple_value":
            return float(value.simple_value)
        if field != "tensor":
            return None
        if any(dimension.size != 1 for dimension in value.tensor.tensor_shape.dim):
            return None
        try:
            return float(self._tensors.make_ndarray(value.tensor).item())
        except (TypeError, ValueError):  # text, or a tensor without a number
            return None


class _Bounded:
    """Reads no more than a file has, whatever length a damaged record claims."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size

    def read(self, length: int) -> bytes:
        return self._file.read(min(length, self._size))
