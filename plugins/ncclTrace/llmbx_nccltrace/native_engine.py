"""The native engine: the compiled `scan.c` counts the clean lines, `Reader` reads the others."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

from .blocks import Blocks, Chunk, new_memory
from .counts import Caller, LogCounts
from .definitions import ELEMENT_BYTES, PER_RANK_COUNT
from .reader import Reader

SHARED_OBJECT = Path(__file__).with_name("libscan.so")
"""`scan.c`, compiled when the wheel was built (`plugins/build_native.py`); missing if there was no C compiler."""

# Array sizes and return codes of scan.c, in the same order.
OPERATIONS, CALLERS, KINDS, IRREGULAR, PROCESS, NAME, PER_RANK = 1 << 15, 1 << 13, 16, 1024, 96, 16, 6
READ_IRREGULAR, OPERATIONS_FULL, CALLERS_FULL = 1, 2, 3


class _Operation(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * NAME), ("count", ctypes.c_uint64), ("calls", ctypes.c_uint64),
        ("datatype", ctypes.c_uint32), ("nranks", ctypes.c_uint32),
    )  # fmt: skip


class _Caller(ctypes.Structure):
    _fields_ = (
        ("process", ctypes.c_char * PROCESS), ("comm", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
        ("length", ctypes.c_uint32), ("nranks", ctypes.c_uint32), ("calls", ctypes.c_uint32 * KINDS),
    )  # fmt: skip


class _State(ctypes.Structure):
    _fields_ = (
        ("lines", ctypes.c_uint64), ("calls", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
        ("irregular_count", ctypes.c_uint32), ("operations", ctypes.c_uint32), ("callers", ctypes.c_uint32),
        ("kinds", ctypes.c_uint32), ("sizes", ctypes.c_uint32 * 16),
        ("per_rank_count", ctypes.c_char * NAME * PER_RANK),
        ("irregular", ctypes.c_uint32 * 2 * IRREGULAR), ("kind", ctypes.c_char * NAME * KINDS),
        ("kind_is_per_rank", ctypes.c_uint8 * KINDS),
        ("used_operation", ctypes.c_uint32 * OPERATIONS), ("used_caller", ctypes.c_uint32 * CALLERS),
        ("operation", _Operation * OPERATIONS), ("caller", _Caller * CALLERS),
    )  # fmt: skip


def load() -> ctypes.CDLL | None:
    """Load the compiled scanner; None if this installation has none that works here."""
    try:
        library = ctypes.CDLL(str(SHARED_OBJECT))
    except OSError:
        return None
    library.scan.restype = ctypes.c_uint64
    library.scan.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p]
    library.find.restype = ctypes.c_int64
    library.find.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint32]
    for clear in (library.clear_operations, library.clear_callers):
        clear.restype, clear.argtypes = None, [ctypes.c_void_p]
    sizes = (ctypes.c_uint64 * 3)()
    library.layout(sizes)
    expected = [ctypes.sizeof(_State), ctypes.sizeof(_Operation), ctypes.sizeof(_Caller)]
    return library if list(sizes) == expected else None


class NativeCounter:
    """Counts one chunk with the compiled scanner."""

    def __init__(self, scanner: ctypes.CDLL, origin: bytes = b"", tables: _State | None = None) -> None:
        """`tables` are those of an earlier counter whose `run` has ended; new ones take 3 MB."""
        self.scanner = scanner
        self.state = tables or _new_tables()
        self.counts = LogCounts()
        self.reader = Reader(self.counts, self._totals, self._flush_caller, origin)

    def run(self, blocks: Blocks) -> LogCounts:
        """Count all blocks."""
        memory = (ctypes.c_char * len(blocks.memory)).from_buffer(blocks.memory)
        for end in blocks:
            self._block(blocks.memory, ctypes.addressof(memory), end)
        self._drain_operations()
        self._drain_callers()
        self.counts.lines = self.state.lines + blocks.long_lines
        self.counts.calls += self.state.calls
        self.counts.volume += self.state.bytes
        self.counts.long_lines = blocks.long_lines
        self.state.lines = self.state.calls = self.state.bytes = self.state.kinds = 0
        return self.counts

    def _block(self, memory: bytearray, address: int, end: int) -> None:
        at, reason_value, view, read_line = 0, ctypes.c_uint32(), memoryview(memory), self.reader.read_line
        state, reason = ctypes.addressof(self.state), ctypes.addressof(reason_value)
        while at < end:
            at = self.scanner.scan(state, address, at, end, reason)
            if self.state.irregular_count:
                bounds = struct.unpack_from(f"{2 * self.state.irregular_count}I", self.state.irregular)
                for first, last in zip(bounds[::2], bounds[1::2], strict=True):
                    read_line(bytes(view[first:last]))
            if reason_value.value == OPERATIONS_FULL:
                self._drain_operations()
            elif reason_value.value == CALLERS_FULL:
                self._drain_callers()

    def _totals(self) -> tuple[int, int]:
        return self.counts.calls + self.state.calls, self.counts.volume + self.state.bytes

    def _flush_caller(self, caller: Caller) -> None:
        process = caller[0].removeprefix(self.reader.origin)
        index = self.scanner.find(ctypes.addressof(self.state), process, len(process), *caller[1:])
        if index >= 0:
            self._move_counts(self.state.caller[index])

    def _move_counts(self, caller: _Caller) -> None:
        """Move the counts of one table slot into `self.counts`; the slot stays allocated."""
        calls = {self.state.kind[i].value.decode(): n for i, n in enumerate(caller.calls) if n}
        if calls:
            process = ctypes.string_at(ctypes.addressof(caller), caller.length)
            epoch = self.counts.epoch((self.reader.qualify(process), caller.comm, caller.nranks))
            epoch.volume += caller.bytes
            epoch.calls.update(calls)
        caller.bytes = 0
        ctypes.memset(caller.calls, 0, ctypes.sizeof(caller.calls))

    def _drain_callers(self) -> None:
        for index in self.state.used_caller[: self.state.callers]:
            self._move_counts(self.state.caller[index])
        self.scanner.clear_callers(ctypes.addressof(self.state))

    def _drain_operations(self) -> None:
        for index in self.state.used_operation[: self.state.operations]:
            operation = self.state.operation[index]
            self.counts.add_calls(
                operation.name.decode(), operation.datatype, operation.nranks, operation.count, operation.calls
            )
        self.scanner.clear_operations(ctypes.addressof(self.state))


def _new_tables() -> _State:
    state = _State()
    state.sizes[: len(ELEMENT_BYTES)] = ELEMENT_BYTES
    for index, name in enumerate(PER_RANK_COUNT):
        state.per_rank_count[index].value = name.encode()
    return state


class Counters:
    """Counts chunks with the compiled scanner, in any number of threads. Each uses the tables of an earlier chunk."""

    def __init__(self, scanner: ctypes.CDLL) -> None:
        self.scanner = scanner
        self._free: list[tuple[_State, bytearray]] = []

    def count(self, chunk: Chunk) -> LogCounts:
        """Count a chunk."""
        try:
            tables, memory = self._free.pop()
        except IndexError:
            tables, memory = _new_tables(), new_memory()
        counts = NativeCounter(self.scanner, chunk.origin, tables).run(Blocks(chunk, memory=memory))
        self._free.append((tables, memory))
        return counts
