"""`Noise` with the compiled `skim.c`, which looks at a block in half the time."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from .literals import skeleton
from .noise import Asked, Look, Noise, without_empty_lines

SHARED_OBJECT = Path(__file__).with_name("libskim.so")
"""`skim.c`, compiled when llmbx was installed (`build_native.py`); missing if there was no C compiler."""

LINES, SLOTS, LONGEST = 1 << 10, 1 << 17, 1 << 17
"""Sizes of the arrays of skim.c."""


class _Line(ctypes.Structure):
    _fields_ = (
        ("hash", ctypes.c_uint64), ("place", ctypes.c_uint32), ("start", ctypes.c_uint32), ("end", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    )  # fmt: skip


class _State(ctypes.Structure):
    _fields_ = (
        ("kept", ctypes.c_uint8 * 256), ("known", ctypes.c_uint64 * SLOTS), ("known_count", ctypes.c_uint32),
        ("count", ctypes.c_uint32), ("lines", ctypes.c_uint32), ("empty", ctypes.c_uint32), ("line", _Line * LINES),
        ("skeleton", ctypes.c_uint8 * LONGEST),
    )  # fmt: skip


@cache
def load() -> ctypes.CDLL | None:
    """The compiled library; None if this installation has none that works here."""
    try:
        library = ctypes.CDLL(str(SHARED_OBJECT))
    except OSError:
        return None
    library.look.restype = ctypes.c_uint64
    library.look.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64]
    library.learn.restype = None
    library.learn.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    library.state_size.restype = ctypes.c_uint64
    return library if library.state_size() == ctypes.sizeof(_State) else None


class CompiledNoise(Noise):
    """Finds the lines of unknown skeletons in C, and asks about them in Python."""

    def __init__(self, asked: Asked, library: ctypes.CDLL) -> None:
        super().__init__(asked)
        self._library = library
        self._state = _State()
        self._state.kept[:] = [bool(skeleton(bytes((byte,)))) for byte in range(256)]

    def look(self, block: bytes) -> Look:
        """Look at the next clean block."""
        state, library = self._state, self._library
        address, offset = ctypes.addressof(state), 0
        places: list[int] = []
        state.lines = state.empty = 0
        while offset < len(block):
            offset = library.look(address, block, offset, len(block))
            for line in state.line[: state.count]:
                if self._must_read(skeleton(block[line.start : line.end])):
                    places.append(line.place)
                else:
                    library.learn(address, line.hash)
        self._forget_many()
        empty = state.empty or block.endswith(b"\n")
        return without_empty_lines(block) if empty else block, places, state.lines

    def _must_read(self, bones: bytes) -> bool:
        if bones not in self._quiet and bones not in self._loud:
            self._decide(bones)
        if bones in self._notices:
            self._count(bones, 1)
        return bones in self._loud


def noise(asked: Asked) -> Noise:
    """Compiled if this installation has the library."""
    library = load()
    return Noise(asked) if library is None else CompiledNoise(asked, library)
