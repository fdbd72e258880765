"""NVTX ranges: the order in which they are opened and closed."""

from __future__ import annotations

from typing import Any

from llmbx.entry.ranges import Marks


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
