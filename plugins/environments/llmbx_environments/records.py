"""JSON files in which llmbx notes what it knows about an environment or an image."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from llmbx.api import NOT_JSON, Value, decode, write_atomic

Record = TypeVar("Record", bound=Value)


def read_record(path: Path, kind: type[Record]) -> Record | None:
    """The record in the file `path`; None if the file is missing or cannot be read."""
    try:
        return decode(path.read_bytes(), kind)
    except (OSError, *NOT_JSON):
        return None


def write_record(path: Path, record: Value) -> None:
    """Write `record` completely or not at all. Raises `InfraError`."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
