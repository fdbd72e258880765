"""Find the other files of a run that a log format reads, and read them, also while they grow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from ..model import Event, Source, SourceRecord, Step
from ..run_files import RunFile, RunFolder
from .lines import CHUNK, Line, LineReader, as_lines, rank_in
from .over_ranks import OverRanks
from .source_reader import LINES, SourceReader

MOST_FILES = 4096
"""Maximum number of files of a run that are read, besides its log."""

ATTEMPTS = "attempts"
"""Folder with the files of earlier attempts, which are not read."""

Reads = Sequence[tuple[int, float | None]]
"""How far a file had been read at which times: (bytes, epoch seconds)."""

Take = Callable[[Step | Event], None]


class SourceParser(Protocol):
    """What the files are read with: the checked parser of a format."""

    sources: tuple[Source, ...]
    over_ranks: OverRanks

    def source_reader(self, kind: str) -> type[SourceReader]:
        """The reader of a kind of files. Raises `UsageError` if no plugin has one."""

    def read(self, lines: Iterable[Line], take: Take) -> None:
        """Parse lines of text."""

    def read_records(self, records: Iterable[SourceRecord], take: Take) -> None:
        """Parse records."""


def pieces(path: Path | RunFile, reads: Reads, size: int = CHUNK) -> Iterator[tuple[bytes, float | None]]:
    """The content of a file in chunks of at most `size` bytes, each with the time at which it was read while it grew.

    Raises `OSError`. The time is None for what was read first, and for what was not read then.
    """
    with path.open("rb") as file:
        for end, at in (*reads, (None, None)):
            while end is None or file.tell() < end:
                chunk = file.read(size if end is None else min(size, end - file.tell()))
                if not chunk:
                    break
                yield chunk, at


class SourceFile:
    """One file of a source, and how far it has been read.

    `reads` has the ends of the parts and their times.
    """

    def __init__(self, path: Path | RunFile, name: str, kind: str, parser: SourceParser) -> None:
        self.path, self.name, self.rank = path, name, rank_in(name)
        self.reads: list[tuple[int, float | None]] = []
        self.problem = ""
        self._lines = LineReader() if kind == LINES else None
        self._records: SourceReader | None = None
        self._offset = 0
        try:
            self._records = parser.source_reader(kind)(name, self.rank) if kind != LINES else None
        except Exception as error:  # no plugin reads it, or a package is missing, or broken
            self.problem = str(error)

    @property
    def is_text(self) -> bool:
        """Whether its secrets can be masked."""
        return self._lines is not None or (self._records is not None and self._records.is_text)

    def read(self, parser: SourceParser, take: Take, at: float | None) -> bool:
        """Read what was written since, at the time `at`; return whether there was anything."""
        before = self._offset
        self._read(parser, take, at)
        return self._offset > before

    def read_again(self, parser: SourceParser, take: Take, reads: Reads) -> None:
        """Read the whole file with the times at which it was read while it grew."""
        for end, at in reads if self._lines is not None else ():
            self._read(parser, take, at, end)
        self.read(parser, take, None)

    def close(self, parser: SourceParser, take: Take) -> None:
        """Use the last line or record if it is complete."""
        if self._lines is not None:
            parser.read(as_lines(self._lines.close(), None, self.name), take)
        elif self._records is not None:
            parser.read_records(self._records.close(), take)

    def faults(self) -> list[str]:
        """One line for each kind of fault."""
        lines = [f"{self.name}: {self.problem}"] if self.problem else []
        lines += self._records.faults.lines(self.name) if self._records is not None else []
        if self._lines is not None and self._lines.long_lines:
            lines.append(f"{self.name}: lines longer than 64 KiB are cut there")
        return lines

    def _read(self, parser: SourceParser, take: Take, at: float | None, end: int | None = None) -> None:
        try:
            with self.path.open("rb") as file:
                if self._lines is not None:
                    self._read_lines(self._lines, file, parser, take, at, end)
                else:
                    self._read_records(file, parser, take)
        except OSError as error:
            self.problem = f"cannot be read: {error.strerror}"

    def _read_lines(
        self, lines: LineReader, file: BinaryIO, parser: SourceParser, take: Take, at: float | None, end: int | None
    ) -> None:
        before = self._offset
        file.seek(before)
        while chunk := file.read(CHUNK if end is None else max(0, min(CHUNK, end - self._offset))):
            self._offset += len(chunk)
            parser.read(as_lines(lines.feed(chunk), at, self.name), take)
        if self._offset > before:
            self.reads.append((self._offset, at))

    def _read_records(self, file: BinaryIO, parser: SourceParser, take: Take) -> None:
        size = file.seek(0, os.SEEK_END)
        if self._records is None or size <= self._offset:
            return
        self._offset = size
        file.seek(0)
        parser.read_records(self._guarded(self._records.read(file)), take)

    def _guarded(self, records: Iterable[SourceRecord]) -> Iterator[SourceRecord]:
        """The records up to a fault of their reader, which is noted."""
        try:
            yield from records
        except OSError:
            raise
        except Exception as error:
            self.problem = f"its reader failed: {type(error).__name__}: {error}"


class SourceFiles:
    """The sources of a run in its folder. Links are not followed."""

    def __init__(self, folder: Path, parser: SourceParser) -> None:
        self._folder, self._parser = RunFolder(path=folder), parser
        self._files: dict[str, SourceFile] = {}
        self._dropped: set[str] = set()

    def advance(self, take: Take, at: float | None = None) -> bool:
        """Read what was written since, at the time `at`; return whether there was anything.

        None if the files were not seen before.
        """
        self._find()
        return sum(file.read(self._parser, take, at) for file in self._files.values()) > 0

    def text_files(self) -> list[Path | RunFile]:
        """The files that are text, those that have just appeared included."""
        self._find()
        return [file.path for file in self._files.values() if file.is_text]

    def read_all(self, take: Take, reads: Mapping[str, Reads]) -> None:
        """Read all files once, to their ends."""
        self._find()
        for name, file in self._files.items():
            file.read_again(self._parser, take, reads.get(name, ()))
        self.close(take)

    def close(self, take: Take) -> None:
        """Use the last lines and records that are complete."""
        for file in self._files.values():
            file.close(self._parser, take)

    def reads(self) -> dict[str, list[tuple[int, float | None]]]:
        """When the parts of the text files were read, by the name of the file."""
        return {name: file.reads for name, file in self._files.items() if file.reads}

    def faults(self) -> list[str]:
        """One line for each kind of fault of each file."""
        dropped = sorted(self._dropped)
        lines = [f"sources {glob}: only {MOST_FILES} files are read" for glob in dropped]
        return lines + [line for file in self._files.values() for line in file.faults()]

    def _find(self) -> None:
        for source in self._parser.sources:
            names = sorted(self._new_names(source.glob))
            left = max(0, MOST_FILES - len(self._files))
            if len(names) > left:
                self._dropped.add(source.glob)
            for name in names[:left]:
                file = self._folder.file(name)
                self._files[name] = SourceFile(file, name, source.kind, self._parser)
                self._parser.over_ranks.expect(rank_in(name))

    def _new_names(self, glob: str) -> Iterator[str]:
        """The names of further files that match, without those of earlier attempts."""
        for file in self._folder.glob(glob):
            if file.file not in self._files and not file.file.startswith((f"{ATTEMPTS}/", ".")):
                yield file.file
