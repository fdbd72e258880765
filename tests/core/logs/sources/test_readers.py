"""Readers of JSON lines, event files and offline runs: any chunks, truncated ends, damage and size."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable

import pytest

from llmbx.logs.sources.base import LIMIT, Reader
from llmbx.logs.sources.crc32c import crc32c, masked
from llmbx.logs.sources.event_file import EventFile
from llmbx.logs.sources.jsonl import JsonLines
from llmbx.logs.sources.offline_run import BLOCK, OfflineRun
from llmbx.model import SourceRecord


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(step: int, tag: str, value: float, padding: int = 0) -> bytes:
    scalar = message(1, tag.encode()) + b"\x15" + struct.pack("<f", value) + message(9, b"x" * padding)
    body = b"\x09" + struct.pack("<d", 1000.5 + step) + b"\x10" + varint(step) + message(5, message(1, scalar))
    head = struct.pack("<Q", len(body))
    return head + struct.pack("<I", masked(head)) + body + struct.pack("<I", masked(body))


def offline(*messages: bytes) -> bytes:
    """A file with these messages, each split at the ends of blocks."""
    out = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for one in messages:
        rest, first = one, True
        while first or rest:
            left = BLOCK - len(out) % BLOCK
            if left < 7:
                out += b"\0" * left
                continue
            part, rest = rest[: left - 7], rest[left - 7 :]
            kind = (1 if not rest else 2) if first else (4 if not rest else 3)
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            first = False
    return bytes(out)


def history(step: int, padding: int = 0, **values: object) -> bytes:
    known = {"_step": step, "_timestamp": 1000.5 + step, **values, **({"text": "x" * padding} if padding else {})}
    items = b"".join(
        message(
            1, message(2, name.encode()) + varint(16 << 3 | 2) + varint(len(text := json.dumps(value).encode())) + text
        )
        for name, value in known.items()
    )
    return message(2, items)


def lines(*objects: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in objects)


FILES: dict[str, tuple[Callable[[str, int | None], Reader], bytes]] = {
    "jsonl": (JsonLines, lines(*({"step": n, "wall_time": 1000.5 + n, "images": 10.0 * n} for n in (1, 2, 3)))),
    "tensorboard": (EventFile, b"".join(event(n, "images", 10.0 * n) for n in (1, 2, 3))),
    "wandb": (OfflineRun, offline(*(history(n, images=10.0 * n) for n in (1, 2, 3)))),
}


def read(reader: Reader, data: bytes, size: int) -> list[SourceRecord]:
    found = [record for at in range(0, len(data), size) for record in reader.feed(data[at : at + size])]
    return [*found, *reader.close()]


@pytest.mark.parametrize("kind", FILES)
def test_records_do_not_depend_on_how_the_file_is_cut_into_chunks(kind: str) -> None:
    make, data = FILES[kind]
    for size in (1, 2, 7, 12, 13, len(data)):
        reader = make("metrics-rank-1", 1)
        found = read(reader, data, size)
        assert [(r.source, r.rank, r.step, r.wall_time) for r in found] == [
            ("metrics-rank-1", 1, n, 1000.5 + n) for n in (1, 2, 3)
        ], size
        assert [record.values["images"] for record in found] == [10.0, 20.0, 30.0]
        assert reader.faults.lines("f") == []


@pytest.mark.parametrize("kind", FILES)
def test_a_truncated_end_keeps_the_records_before_it_and_is_reported(kind: str) -> None:
    make, data = FILES[kind]
    for cut in (2, 5, 20):
        reader = make("f", None)
        assert [record.step for record in read(reader, data[:-cut], 64)] == [1, 2], cut
        assert reader.faults.lines("f") == ["f: the last record is incomplete and skipped"]
    waiting = make("f", None)
    assert [record.step for record in waiting.feed(data[:-5])] == [1, 2]
    rest = [record.step for record in (*waiting.feed(data[-5:]), *waiting.close())]
    assert rest == [3] and waiting.faults.lines("f") == [], "a growing file's last record is waited for"


@pytest.mark.parametrize("kind", FILES)
def test_a_record_beyond_the_limit_is_skipped_and_the_next_ones_are_read(kind: str) -> None:
    make, data = FILES[kind]
    long = {
        "jsonl": lines({"step": 9, "text": "x" * LIMIT}),
        "tensorboard": event(9, "images", 1.0, padding=LIMIT),
        "wandb": offline(history(8, images=1.0), history(9, padding=3 * LIMIT, images=1.0), history(10, images=2.0)),
    }[kind]
    whole = long if kind == "wandb" else data + long + data
    for size in (1 << 12, len(whole)):
        reader = make("f", None)
        found = [record.step for record in read(reader, whole, size)]
        assert found == ([8, 10] if kind == "wandb" else [1, 2, 3, 1, 2, 3])
        assert reader.faults.lines("f") == ["f: 1 record is longer than 64 KiB and skipped"]


@pytest.mark.parametrize("kind", FILES)
def test_damage_is_reported_once_and_never_becomes_a_value(kind: str) -> None:
    make, data = FILES[kind]
    good = {record.step: record.values for record in read(make("f", None), data, 64)}
    for place in range(0, len(data), 3):
        reader = make("f", None)
        found = read(reader, data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :], 64)
        if kind != "jsonl":  # a line has no checksum
            assert all(record.values == good[record.step] for record in found), place
            assert len(found) == 3 or len(reader.faults.lines("f")) == 1, place


def test_any_bytes_are_read_without_an_exception() -> None:
    for make, data in FILES.values():
        for junk in (b"\0" * 70_000, b"\xff" * 70_000, b"{" * 70_000 + b"\n", data[1:9], b"[" * 60_000 + b"\n", b"1\n"):
            assert read(make("f", None), junk, 4096) == []


def test_json_lines_with_what_python_writes_and_what_is_no_object() -> None:
    reader = JsonLines("f", None)
    data = b'{"step": 1, "loss": NaN}\n\n[1]\n{"step": true}\n{"step": 2.0, "wall_time": "now"}\n{"step": 3}'
    first, second, third, last = read(reader, data, 5)
    assert first.step == 1 and math.isnan(float(str(first.values["loss"])))
    assert (second.step, third.step, third.wall_time, last.step) == (None, 2, None, 3)
    assert reader.faults.lines("f") == ["f: 1 record is not valid and skipped (first: line 3 is not a JSON object)"]
    big = read(JsonLines("f", None), b'{"step": ' + b"9" * 400 + b', "x": ' + b"9" * 5000 + b"}\n", 100)
    assert big == []


def test_the_checksum_is_the_published_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283, "the check value of CRC-32C (RFC 3720)"
    assert crc32c(b"\0" * 32) == 0x8A9136AA, "RFC 3720, B.4"
