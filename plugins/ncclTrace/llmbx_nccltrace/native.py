"""The compiled engine: `scan.c` counts the clean lines, `Reader` reads the others."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .blocks import Blocks, Stretch
from .compiler import shared_object
from .facts import ELEMENT_BYTES, WHOLE
from .reader import Reader
from .tally import Caller, Tally

SOURCE = Path(__file__).with_name("scan.c")

# The sizes of scan.c's arrays, in its order.
OPERATIONS, CALLERS, KINDS, ODD, WHO, NAME = 1 << 15, 1 << 13, 16, 1024, 96, 16
MORE_ODD, OPERATIONS_FULL, CALLERS_FULL = 1, 2, 3


class _Operation(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * NAME), ("count", ctypes.c_uint64), ("calls", ctypes.c_uint64),
        ("datatype", ctypes.c_uint32), ("nranks", ctypes.c_uint32),
    )  # fmt: skip


class _Caller(ctypes.Structure):
    _fields_ = (
        ("who", ctypes.c_char * WHO), ("comm", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
        ("length", ctypes.c_uint32), ("nranks", ctypes.c_uint32), ("calls", ctypes.c_uint32 * KINDS),
    )  # fmt: skip


class _State(ctypes.Structure):
    _fields_ = (
        ("lines", ctypes.c_uint64), ("calls", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
        ("odds", ctypes.c_uint32), ("operations", ctypes.c_uint32), ("callers", ctypes.c_uint32),
        ("kinds", ctypes.c_uint32), ("sizes", ctypes.c_uint32 * 16), ("whole", ctypes.c_char * NAME * 2),
        ("odd", ctypes.c_uint32 * 2 * ODD), ("kind", ctypes.c_char * NAME * KINDS),
        ("used_operation", ctypes.c_uint32 * OPERATIONS), ("used_caller", ctypes.c_uint32 * CALLERS),
        ("operation", _Operation * OPERATIONS), ("caller", _Caller * CALLERS),
    )  # fmt: skip


@contextmanager
def scanner(environ: Mapping[str, str] = os.environ) -> Iterator[ctypes.CDLL | None]:
    """The compiled scanner, or None where it cannot be had."""
    with shared_object(SOURCE, environ) as path:
        yield _loaded(path) if path else None


def _loaded(path: Path) -> ctypes.CDLL | None:
    try:
        found = ctypes.CDLL(str(path))
    except OSError:
        return None
    found.scan.restype = ctypes.c_uint64
    found.scan.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p]
    found.find.restype = ctypes.c_int64
    found.find.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint32]
    sizes = (ctypes.c_uint64 * 3)()
    found.layout(sizes)
    mine = [ctypes.sizeof(_State), ctypes.sizeof(_Operation), ctypes.sizeof(_Caller)]
    return found if list(sizes) == mine else None


class Scanning:
    """Counts one stretch with the compiled scanner."""

    def __init__(self, scanner: ctypes.CDLL, origin: bytes = b"") -> None:
        self.scanner = scanner
        self.state = _State()
        self.state.sizes[: len(ELEMENT_BYTES)] = ELEMENT_BYTES
        for place, name in enumerate(WHOLE):
            self.state.whole[place].value = name.encode()
        self.tally = Tally()
        self.reader = Reader(self.tally, self._totals, self._settle, origin)

    def run(self, blocks: Blocks) -> Tally:
        """Count all blocks."""
        memory = (ctypes.c_char * len(blocks.memory)).from_buffer(blocks.memory)
        for end in blocks:
            self._block(blocks.memory, ctypes.addressof(memory), end)
        self._drain_operations()
        self._drain_callers()
        self.tally.lines = self.state.lines + blocks.long_lines
        self.tally.calls += self.state.calls
        self.tally.volume += self.state.bytes
        self.tally.long_lines = blocks.long_lines
        return self.tally

    def _block(self, memory: bytearray, address: int, end: int) -> None:
        at, why, view, odd = 0, ctypes.c_uint32(), memoryview(memory), self.reader.odd
        state, reason = ctypes.addressof(self.state), ctypes.addressof(why)
        while at < end:
            at = self.scanner.scan(state, address, at, end, reason)
            if self.state.odds:
                places = struct.unpack_from(f"{2 * self.state.odds}I", self.state.odd)
                for first, last in zip(places[::2], places[1::2], strict=True):
                    odd(bytes(view[first:last]))
            if why.value == OPERATIONS_FULL:
                self._drain_operations()
            elif why.value == CALLERS_FULL:
                self._drain_callers()

    def _totals(self) -> tuple[int, int]:
        return self.tally.calls + self.state.calls, self.tally.volume + self.state.bytes

    def _settle(self, caller: Caller) -> None:
        who = caller[0].removeprefix(self.reader.origin)
        place = self.scanner.find(ctypes.addressof(self.state), who, len(who), *caller[1:])
        if place >= 0:
            self._take(self.state.caller[place])

    def _take(self, caller: _Caller) -> None:
        """Move the counts of one slot into the tally; the slot stays."""
        calls = {self.state.kind[i].value.decode(): n for i, n in enumerate(caller.calls) if n}
        if calls:
            who = ctypes.string_at(ctypes.addressof(caller), caller.length)
            epoch = self.tally.epoch((self.reader.named(who), caller.comm, caller.nranks))
            epoch.volume += caller.bytes
            epoch.calls.update(calls)
        caller.bytes = 0
        ctypes.memset(caller.calls, 0, ctypes.sizeof(caller.calls))

    def _drain_callers(self) -> None:
        for place in self.state.used_caller[: self.state.callers]:
            self._take(self.state.caller[place])
        ctypes.memset(self.state.caller, 0, ctypes.sizeof(self.state.caller))
        self.state.callers = 0

    def _drain_operations(self) -> None:
        for place in self.state.used_operation[: self.state.operations]:
            found = self.state.operation[place]
            self.tally.count(found.name.decode(), found.datatype, found.nranks, found.count, found.calls)
        ctypes.memset(self.state.operation, 0, ctypes.sizeof(self.state.operation))
        self.state.operations = 0


def count(scanner: ctypes.CDLL, stretch: Stretch) -> Tally:
    """What a stretch shows, read with the compiled scanner."""
    return Scanning(scanner, stretch.origin).run(Blocks(stretch))
