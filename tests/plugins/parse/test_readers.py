"""Readers of JSON lines, event files and offline runs: growing files, truncated ends, damage and size.

Event files are written by TensorBoard's own writer, offline runs as W&B's program writes them.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from llmbx.logs.lines import LIMIT
from llmbx.logs.plain import PlainParser
from llmbx.logs.source_files import SourceFile
from llmbx.logs.source_reader import SourceReader as Reader
from llmbx.model import SourceRecord
from llmbx.plugins.log_parser import CheckedParser
from llmbx.plugins.manager import load
from llmbx_parse.sources import offline_run
from llmbx_parse.sources.event_file import EventFile
from llmbx_parse.sources.jsonl import JsonLines
from llmbx_parse.sources.offline_run import OfflineRun

BLOCK = 1 << 15
"""Length of a block of an offline run."""


def events(*messages: Event) -> bytes:
    """An event file, without the event that names the version."""
    file = io.BytesIO()
    writer = RecordWriter(file)
    for message in messages:
        writer.write(message.SerializeToString())
    return file.getvalue()


def event(step: int, **scalars: float) -> Event:
    values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
    return Event(wall_time=1000.5 + step, step=step, summary=Summary(value=values))


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def offline(*messages: bytes) -> bytes:
    """A file with these messages, each split at the ends of blocks."""
    out = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for content in messages:
        rest, first = content, True
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
    item = {"_step": step, "_timestamp": 1000.5 + step, **values, **({"text": "x" * padding} if padding else {})}
    return message(2, b"".join(message(1, history_item(name, json.dumps(value))) for name, value in item.items()))


def history_item(name: str, value: str) -> bytes:
    return message(2, name.encode()) + varint(16 << 3 | 2) + varint(len(value)) + value.encode()


def lines(*objects: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in objects)


FILES: dict[str, tuple[Callable[[str, int | None], Reader], bytes]] = {
    "jsonl": (JsonLines, lines(*({"step": n, "wall_time": 1000.5 + n, "images": 10.0 * n} for n in (1, 2, 3)))),
    "tensorboard": (EventFile, events(*(event(n, images=10.0 * n) for n in (1, 2, 3)))),
    "wandb": (OfflineRun, offline(*(history(n, images=10.0 * n) for n in (1, 2, 3)))),
}

INCOMPLETE = {
    "jsonl": "f: the last record is incomplete and skipped",
    "tensorboard": "f: the last record is incomplete and skipped",
    "wandb": "f: wandb leet inspect: reached the end of an incomplete .wandb file (the run may still be active or was "
    "interrupted)",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics"


def read(reader: Reader, path: Path, data: bytes) -> list[SourceRecord]:
    """What a reader finds new in a file that has grown to `data`."""
    path.write_bytes(data)
    with path.open("rb") as file:
        return [*reader.read(file)]


def read_whole(reader: Reader, path: Path, data: bytes) -> list[SourceRecord]:
    return [*read(reader, path, data), *reader.close()]


@pytest.mark.parametrize("kind", FILES)
def test_records_have_step_time_values_and_the_rank_of_the_file(kind: str, path: Path) -> None:
    make, data = FILES[kind]
    reader = make("metrics-rank-1", 1)
    records = read_whole(reader, path, data)
    assert [(r.source, r.rank, r.step, r.wall_time) for r in records] == [
        ("metrics-rank-1", 1, n, 1000.5 + n) for n in (1, 2, 3)
    ]
    assert [record.values["images"] for record in records] == [10.0, 20.0, 30.0]
    assert reader.faults.lines("f") == []


@pytest.mark.parametrize("kind", FILES)
def test_a_growing_file_is_read_on_and_an_unfinished_record_waited_for(kind: str, path: Path) -> None:
    make, data = FILES[kind]
    reader, steps, step = make("f", None), list[int | None](), max(1, len(data) // 9)
    for size in range(step, len(data), step):
        steps += [record.step for record in read(reader, path, data[:size])]
    assert steps == [1, 2]
    assert [record.step for record in read(reader, path, data)] == [3]
    assert read_whole(reader, path, data) == [] and reader.faults.lines("f") == []


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("cut", [2, 20])
def test_a_truncated_end_keeps_the_records_before_it_and_is_reported(kind: str, cut: int, path: Path) -> None:
    make, data = FILES[kind]
    reader = make("f", None)
    assert [record.step for record in read_whole(reader, path, data[:-cut])] == [1, 2]
    assert reader.faults.lines("f") == [INCOMPLETE[kind]]


@pytest.mark.parametrize("kind", FILES)
def test_damage_is_reported_and_never_becomes_a_value(kind: str, path: Path) -> None:
    make, data = FILES[kind]
    values = {record.step: record.values for record in read_whole(make("f", None), path, data)}
    for place in range(0, len(data), 11 if kind == "wandb" else 3):
        reader = make("f", None)
        records = read_whole(reader, path, data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        if kind != "jsonl":  # a line has no checksum
            assert all(record.values == values[record.step] for record in records), place
            assert len(records) == 3 or reader.faults.lines("f"), place


@pytest.mark.parametrize("kind", FILES)
def test_any_bytes_are_read_without_an_exception(kind: str, path: Path) -> None:
    make, data = FILES[kind]
    huge = struct.pack("<Q", 1 << 62)
    for junk in (b"\0" * 70_000, b"\xff" * 70_000, b"{" * 70_000 + b"\n", data[1:9], b"[" * 60_000 + b"\n", b"1\n",
                 huge + b"\0" * 40):  # fmt: skip
        reader = make("f", None)
        assert read_whole(reader, path, junk) == []
        assert all("\n" not in line and len(line) < 300 for line in reader.faults.lines("f"))


def test_a_record_that_claims_to_be_longer_than_the_file_is_incomplete(path: Path) -> None:
    """With a right checksum, as only a hostile file has."""
    length = struct.pack("<Q", 1 << 62)
    reader = EventFile("f", None)
    head = length + struct.pack("<I", masked_crc32c(length))
    assert [record.step for record in read_whole(reader, path, FILES["tensorboard"][1] + head + b"x" * 9)] == [1, 2, 3]
    assert reader.faults.lines("f") == ["f: the last record is incomplete and skipped"]


@pytest.mark.parametrize("kind", ["jsonl", "wandb"])
def test_a_record_beyond_the_limit_is_skipped_and_the_next_ones_are_read(kind: str, path: Path) -> None:
    make, data = FILES[kind]
    reader = make("f", None)
    if kind == "jsonl":
        records = read_whole(reader, path, data + lines({"step": 9, "text": "x" * LIMIT}) + data)
        assert [record.step for record in records] == [1, 2, 3, 1, 2, 3]
    else:
        long = offline(history(8, images=1.0), history(9, padding=3 * LIMIT, images=1.0), history(10, images=2.0))
        assert [record.step for record in read_whole(reader, path, long)] == [8, 10]
    assert reader.faults.lines("f") == ["f: 1 record is longer than 64 KiB and skipped"]


def test_scalars_of_event_files_are_read_and_nothing_else(path: Path) -> None:
    contents = {"exact": numpy.float64(0.1), "count": [7], "vector": [1.0, 2.0], "text": "words", "empty": []}
    tensors = {tag: make_tensor_proto(content) for tag, content in contents.items()}
    values = [Summary.Value(tag=tag, tensor=tensor) for tag, tensor in tensors.items()]
    values += [Summary.Value(tag="nan", simple_value=math.nan), Summary.Value(simple_value=1.0)]
    bomb = make_tensor_proto(1.0)
    bomb.tensor_shape.dim.add(size=1 << 40)
    values.append(Summary.Value(tag="bomb", tensor=bomb))
    data = events(Event(file_version="brain.Event:2"), Event(step=3, summary=Summary(value=values)))
    (record,) = read_whole(EventFile("f", None), path, data)
    assert (record.step, record.wall_time) == (3, None)
    assert repr(record.values) == repr({"exact": 0.1, "count": 7.0, "nan": math.nan})


def test_numbers_of_an_offline_run_that_are_not_finite(path: Path) -> None:
    (record,) = read_whole(OfflineRun("f", None), path, offline(history(1, loss=math.nan, peak=-math.inf)))
    assert (repr(record.values["loss"]), record.values["peak"]) == ("nan", -math.inf)


def test_json_lines_with_what_python_writes_and_what_is_no_object(path: Path) -> None:
    reader = JsonLines("f", None)
    data = b'{"step": 1, "loss": NaN}\n\n[1]\n{"step": true}\n{"step": 2.0, "wall_time": "now"}\n{"step": 3}'
    first, second, third, last = read_whole(reader, path, data)
    assert first.step == 1 and math.isnan(float(str(first.values["loss"])))
    assert (second.step, third.step, third.wall_time, last.step) == (None, 2, None, 3)
    assert reader.faults.lines("f") == ["f: 1 record is not valid and skipped (first: line 3 is not a JSON object)"]
    big = b'{"step": ' + b"9" * 400 + b', "x": ' + b"9" * 5000 + b"}\n"
    assert read_whole(JsonLines("f", None), path, big) == []


def test_an_older_package_is_one_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        version = "0.30.2"

    monkeypatch.setattr(offline_run.metadata, "distribution", lambda name: Old())
    parser = CheckedParser(PlainParser(), "plugin 'toy'", load().source_reader)
    assert SourceFile(path, "f", "wandb", parser).faults() == [
        "f: wandb 0.31 or newer is not installed: pip install 'llmbx[wandb]'"
    ]
