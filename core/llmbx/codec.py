"""Decode JSON and convert plain data to typed records, from any thread.

msgspec builds its description of a type on first use, without a lock: a second thread that uses the type at the same
time reads an incomplete description, and the process crashes with a segmentation fault (msgspec 0.19 to 0.22). This
module builds every description under one lock, for the types of plugins as well as for llmbx's own. Other modules of
core use it instead of `msgspec.convert` and typed decoders (`tests/test_house.py`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")

_lock = threading.RLock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """The JSON decoder for `kind`; the same object on every call."""
    cached = _decoders.get(kind)
    if cached is None:
        with _lock:
            cached = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return cast("msgspec.json.Decoder[T]", cached)


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode the JSON text `data`. Raises `msgspec.DecodeError`, `UnicodeDecodeError` or `RecursionError`."""
    return decoder(kind).decode(data)


def convert(data: object, kind: type[T], **options: Any) -> T:
    """Convert plain `data` to a `kind`, with `msgspec.convert`'s options. Raises `msgspec.ValidationError`."""
    decoder(kind)
    return cast(T, msgspec.convert(data, kind, **options))


def validator(kind: type[T]) -> Callable[[object], T]:
    """A function that converts data to `kind`, for hot loops."""
    decoder(kind)
    return functools.partial(msgspec.convert, type=kind)
