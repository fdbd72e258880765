"""The fields of a protocol buffer message, without its schema (protobuf.dev, "Encoding")."""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Field = tuple[int, int, int | bytes]
"""Number of the field, its wire type, and its value: an integer for `VARINT`, else the bytes."""

_LARGEST = 10
"""Maximum length of an integer in bytes."""


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in order. Raises `ValueError` if the bytes are not one."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        length = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == BYTES:
            length, at = _varint(data, at)
        if length is None or at + length > len(data):
            raise ValueError(f"invalid field at byte {at}")
        yield number, kind, data[at : at + length]
        at += length


def signed(value: int) -> int:
    """The int64 of a varint."""
    return value - (1 << 64) if value >= 1 << 63 else value


def number(kind: int, value: int | bytes) -> float | None:
    """The float, double or int64 of a field."""
    if isinstance(value, int):
        return signed(value)
    if kind == FIXED64:
        return float(struct.unpack("<d", value)[0])
    return float(struct.unpack("<f", value)[0]) if kind == FIXED32 else None


def text(value: int | bytes) -> str:
    """The string of a field; invalid UTF-8 becomes U+FFFD."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LARGEST):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value & (1 << 64) - 1, at + place + 1
    raise ValueError(f"invalid integer at byte {at}")
