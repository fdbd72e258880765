"""NVTX ranges: the order in which they are opened and closed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from llmbx.entry.ranges import RECORD, Marks, nvtx_module


class Recorder:
    """Mock of the package nvtx that records the calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def push_range(self, name: str, domain: str, payload: int | None = None) -> None:
        assert domain == "llmbx"
        self.calls.append(name if payload is None else (name, payload))

    def pop_range(self, domain: str) -> None:
        assert domain == "llmbx"
        self.calls.append("end")


def test_a_step_lasts_until_the_next_begins_or_the_profile_ends() -> None:
    nvtx = Recorder()
    marks = Marks(nvtx)
    for number in range(6):
        if number == 2:
            marks.begin()
        marks.step(number)
        if number == 3:
            marks.end()
    assert nvtx.calls == ["profile", ("step", 2), "end", ("step", 3), "end", "end"]


def test_a_step_can_end_before_the_next_begins() -> None:
    nvtx = Recorder()
    marks = Marks(nvtx, whole=False)
    marks.begin()
    for number in (4, 5):
        marks.step(number)
        marks.pause()
    marks.end()
    marks.step(6)
    assert nvtx.calls == [("step", 4), "end", ("step", 5), "end"]


def test_the_profiler_gets_to_know_which_nvtx_a_rank_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "nvtx-0.json"
    assert nvtx_module() is not None and not file.exists(), "without such a profiler, nothing is written"
    monkeypatch.setenv(RECORD, str(file))
    assert nvtx_module() is not None
    assert json.loads(file.read_text()) == {"nvtx": "0.2.11", "python": sys.executable}
    monkeypatch.setitem(sys.modules, "nvtx", None)
    assert nvtx_module() is None and "nvtx is not installed" in capsys.readouterr().err
    assert json.loads(file.read_text()) == {"nvtx": None, "python": sys.executable}
