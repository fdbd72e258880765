"""The base of the readers of files of records, which plugins register."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import BinaryIO

from ..errors import UsageError
from ..model import SourceRecord
from .lines import LIMIT

LINES = "lines"
"""The kind of text, which the parser reads line by line."""


class Faults:
    """Counts the records of one file that could not be read.

    `messages` are those of the program that reads it.
    """

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
        lines = []
        if self.too_long:
            lines.append(f"{_records(self.too_long)} longer than {LIMIT >> 10} KiB and skipped")
        if self.invalid:
            first = f"first: {self.first_invalid}"
            lines.append(f"{_records(self.invalid)} not valid and skipped ({first})")
        if self.damaged_at is not None:
            lines.append(f"damaged at byte {self.damaged_at}; the rest is not read")
        if self.incomplete:
            lines.append("the last record is incomplete and skipped")
        return [f"{source}: {text}" for text in (*lines, *self.messages)]


class SourceReader(ABC):
    """Reads the records of one file of a run, also while it grows."""

    kind: str
    """The `kind` of the `Source`s that it reads."""
    is_text: bool = False
    """Whether its files are text: secrets in them are masked before they are read."""
    limit: int = LIMIT
    """Longest record in bytes that is kept in memory."""

    def __init__(self, source: str, rank: int | None) -> None:
        """`source` is the file's path in the run's folder, `rank` the rank in its name.

        Raises `UsageError` if a package is missing that it needs.
        """
        self.source = source
        self.rank = rank
        self.faults = Faults()

    @classmethod
    def recognizes(cls, name: str) -> bool:
        """Return whether a file of this name, which no format declares, is of this kind."""
        return False

    @abstractmethod
    def read(self, file: BinaryIO) -> Iterator[SourceRecord]:
        """Return the records that were completed since the last call.

        `file` is open at its beginning.
        """

    def close(self) -> list[SourceRecord]:
        """Return the last record, if it is complete without what may have followed."""
        return []


FindReader = Callable[[str], type[SourceReader]]
"""Finds the reader of a kind of files. Raises `UsageError` if there is none."""


def no_reader(kind: str) -> type[SourceReader]:
    """Refuse every kind of files: no plugin is known."""
    raise UsageError(f"no plugin reads files of the kind {kind}")


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count} records are"
