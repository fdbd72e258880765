"""What a rank did besides its steps: what is marked, and what is part of it."""

from __future__ import annotations

import gc
import sys
import time
import types
from pathlib import Path

import pytest

from llmbx_telemetry.entry import marks
from llmbx_telemetry.entry.marks import Marks


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rank-0.marks"


class Time:
    """The monotonic clock, in milliseconds."""

    ms = 1000

    def __call__(self) -> int:
        return self.ms * 1_000_000


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Time:
    moved = Time()
    monkeypatch.setattr(time, "monotonic_ns", moved)
    return moved


def test_what_is_inside_the_same_is_part_of_it(file: Path, now: Time) -> None:
    written = Marks(file)
    with written.mark("checkpoint"):
        now.ms += 3
        with written.mark("checkpoint"), written.mark("garbage-collection"):
            now.ms += 4
    with written.mark("checkpoint"):
        pass  # too short
    written.close()
    lines = ["garbage-collection\t1003000000\t4000", "checkpoint\t1000000000\t7000"]
    assert file.read_text().splitlines() == lines


def test_a_collection_of_garbage_is_marked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "LEAST_NS", 0)
    written = Marks(file)
    marks._see_garbage(written)
    try:
        gc.collect()
    finally:
        gc.callbacks.pop()
    written.close()
    assert "garbage-collection" in file.read_text()


def test_the_compiler_is_seen_when_it_is_imported(file: Path, now: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    written, calls = Marks(file), []
    monkeypatch.delitem(sys.modules, "torch._dynamo.callback", raising=False)
    assert not marks.see_compilation(written)
    handler = types.SimpleNamespace(register_start_callback=calls.append, register_end_callback=calls.append)
    module = types.SimpleNamespace(callback_handler=handler)
    monkeypatch.setitem(sys.modules, "torch._dynamo.callback", module)  # type: ignore[arg-type]
    assert marks.see_compilation(written)
    calls[0](None)
    now.ms += 9
    calls[1](None)
    written.close()
    assert file.read_text() == "compile\t1000000000\t9000\n"
