"""What the readers of all kinds of files share: limits, and counts of what could not be read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Protocol

from ...model import SourceRecord
from ..lines import LIMIT as LIMIT


class Reader(Protocol):
    """Reads the records of one file, also while it grows."""

    faults: Faults

    def read(self, file: BinaryIO) -> Iterator[SourceRecord]:
        """The records that were completed since the last call; `file` is open at its beginning."""

    def close(self) -> list[SourceRecord]:
        """The last record, if it is complete without what may have followed."""


class Faults:
    """Counts the records of one file that could not be read. `messages` are those of the program that reads it."""

    def __init__(self) -> None:
        self.too_long = self.invalid = 0
        self.first_invalid = ""
        self.damaged_at: int | None = None
        self.incomplete = False
        self.messages: list[str] = []

    def note_invalid(self, place: str) -> None:
        """A record is not what its format promises; `place` names it."""
        self.invalid += 1
        self.first_invalid = self.first_invalid or place

    def lines(self, source: str) -> list[str]:
        """One line for each kind of fault."""
        found = []
        if self.too_long:
            found.append(f"{_records(self.too_long)} longer than {LIMIT >> 10} KiB and skipped")
        if self.invalid:
            found.append(f"{_records(self.invalid)} not valid and skipped (first: {self.first_invalid})")
        if self.damaged_at is not None:
            found.append(f"damaged at byte {self.damaged_at}; the rest is not read")
        if self.incomplete:
            found.append("the last record is incomplete and skipped")
        return [f"{source}: {text}" for text in (*found, *self.messages)]


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count} records are"


def as_object(text: bytes) -> dict[str, object] | None:
    """The JSON object `text`, also with NaN and Infinity as Python writes them; None for other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # ValueError: also invalid UTF-8, and integers of thousands of digits
        return None
    return value if isinstance(value, dict) else None


def whole_number(values: Mapping[str, object], name: str) -> int | None:
    """The value of this name if it is an integer, also one written as 3.0."""
    found = values.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return int(found) if math.isfinite(found) and found == int(found) else None


def real_number(values: Mapping[str, object], name: str) -> float | None:
    """The value of this name if it is a finite number that a float can hold."""
    found = values.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) < 1e300:
        return None
    return float(found)
