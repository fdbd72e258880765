"""Read the last calls of every rank, in order, from the ends of the logs; the engines only count calls."""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from llmbx.api import RunFile

from .counts import Caller
from .definitions import POINT_TO_POINT
from .grammar import COUNTED, RECORD, address, messages

_PIECE = 1 << 20
_MAX_CACHED = 20_000
_OPENED = b"Init COMPLETE"
_INIT = re.compile(rb"comm (0x[0-9a-f]{1,16}) rank \d{1,9} nranks (\d{1,9}) ")


class Call(NamedTuple):
    """What one rank called; equal in all ranks of a communicator (the count of AllToAllv and the like is left out)."""

    op: str
    elements: int
    datatype: int
    root: int


class Entry(NamedTuple):
    """One collective in a log, with its opCount; None if the log has no valid one."""

    number: int | None
    call: Call


@dataclass(slots=True)
class Tail:
    """The last collectives of each caller, without sends and receives, which differ between ranks.

    `whole` if all logs were read from their beginning.
    """

    whole: bool = True
    entries: dict[Caller, list[Entry]] = field(default_factory=dict)
    _files: dict[Caller, int] = field(default_factory=dict)
    _calls: dict[tuple[bytes, ...], Call | None] = field(default_factory=dict)
    _heads: dict[bytes, bytes] = field(default_factory=dict)

    def read(self, lines: Iterable[bytes], origin: bytes, file: int) -> None:
        """Add the lines of the end of one file."""
        self._heads.clear()
        for line in lines:
            head, separator, message = line.partition(b" NCCL INFO ")
            process = self._heads.get(head) if separator else None
            record = RECORD.match(message) if process else None
            if process and record and message.find(COUNTED, record.end()) < 0:
                self._add(process, record, file)
            elif COUNTED in line or _OPENED in line:
                self._slowly(line, origin, file)

    def _slowly(self, line: bytes, origin: bytes, file: int) -> None:
        parts = list(messages(line))
        for process, level, text in parts:
            name = origin + process if process.endswith(b"]") else process
            if level == b"INFO" and _OPENED in text:
                self._opened(name, text)
            elif level == b"INFO" and name and (record := RECORD.match(text)):
                self._add(name, record, file)
                head, _, after = line.partition(b" NCCL INFO ")
                if len(parts) == 1 and after == text and len(self._heads) < _MAX_CACHED:
                    self._heads[head] = name

    def _opened(self, process: bytes, text: bytes) -> None:
        if match := _INIT.search(text):
            self.entries.pop((process, int(match[1], 16), int(match[2])), None)

    def _add(self, process: bytes, record: re.Match[bytes], file: int) -> None:
        name, number, count, datatype, root, pointer, ranks = record.groups()
        key = name, count, datatype, root
        if key not in self._calls:
            if len(self._calls) >= _MAX_CACHED:
                self._calls.clear()
            self._calls[key] = _call(*key)
        call, where = self._calls[key], address(pointer)
        if call is None or where is None:
            return
        caller = process, where, int(ranks)
        if self._files.setdefault(caller, file) != file:
            self._files[caller] = file
            self.entries.pop(caller, None)
        try:
            self.entries.setdefault(caller, []).append(Entry(int(number, 16), call))
        except ValueError:
            self.entries[caller].append(Entry(None, call))


def _call(name: bytes, count: bytes, datatype: bytes, root: bytes) -> Call | None:
    op = name.decode()
    if op in POINT_TO_POINT:
        return None
    elements = 0 if op.endswith(("v", "V")) else int(count)
    return Call(op, elements, int(datatype), int(root) if root.isdigit() else 0)


def read_tail(logs: Sequence[Path | RunFile], size: int) -> Tail:
    """Read the last `size` bytes of all logs, an equal part of each, at least 4 KiB. Pipes cannot be read again."""
    tail = Tail()
    each = max(4096, size // max(1, len(logs)))
    for number, log in enumerate(logs):
        origin = b"%d/" % number if len(logs) > 1 else b""
        if isinstance(log, Path) and not log.is_file():
            tail.whole = False
            continue
        with log.open("rb") as file:
            lines, whole = _unpacked(file, each) if log.suffix == ".gz" else _end(file, each)
            if not whole:
                next(lines, b"")  # the rest of a line
            tail.read(lines, origin, number)
        tail.whole = tail.whole and whole
    return tail


def ends(logs: Sequence[Path | RunFile], size: int) -> Iterator[tuple[Path | RunFile, bytes]]:
    """The last `size` bytes of all logs, an equal part of each, at least 4 KiB, from the beginning of a line."""
    each = max(4096, size // max(1, len(logs)))
    for log in logs:
        if isinstance(log, Path) and not log.is_file():
            continue
        with log.open("rb") as file:
            lines, whole = _unpacked(file, each) if log.suffix == ".gz" else _end(file, each)
            if not whole:
                next(lines, b"")
            yield log, b"".join(lines)


def _end(file: BinaryIO, size: int) -> tuple[Iterator[bytes], bool]:
    """Return the lines in the last bytes of a file, and whether these are the whole file."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - size))
    return iter(file), length <= size


def _unpacked(file: BinaryIO, size: int) -> tuple[Iterator[bytes], bool]:
    kept, whole, unpacked = b"", True, gzip.GzipFile(fileobj=file)
    while piece := unpacked.read(_PIECE):
        kept += piece
        if len(kept) > size:
            kept, whole = kept[-size:], False
    return io.BytesIO(kept), whole
