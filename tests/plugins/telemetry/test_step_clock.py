"""What a clock of steps writes, by a clock that the test moves: which part of a step is which column."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from llmbx_telemetry.entry import step_clock
from llmbx_telemetry.entry.step_clock import COLUMNS, MAGIC, RECORD, UNKNOWN, HostTimer, StepClock


class Time:
    """The monotonic clock, in milliseconds."""

    def __init__(self) -> None:
        self.ms = 0

    def __call__(self) -> int:
        return self.ms * 1_000_000


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Time:
    moved = Time()
    monkeypatch.setattr(time, "monotonic_ns", moved)
    monkeypatch.setenv("LLMBX_RANK", "3")
    return moved


def written(folder: Path) -> tuple[dict[str, Any], list[dict[str, int]]]:
    """The head and the steps in the file of rank 3; durations in milliseconds."""
    content = (folder / "step_clocks" / "rank-3.bin").read_bytes()
    assert content.startswith(MAGIC)
    (length,) = struct.unpack_from("<I", content, 8)
    rows = RECORD.iter_unpack(content[12 + length :])
    names = ("step", "start", *COLUMNS)
    steps = [dict(zip(names, row, strict=True)) for row in rows]
    return json.loads(content[12 : 12 + length]), [
        {
            name: value if name in ("step", "start") or value == UNKNOWN else value // 1000
            for name, value in step.items()
        }
        for step in steps
    ]


def train(clock: StepClock, now: Time, meets: bool) -> None:
    """A step: 5 ms of data, 60 ms of computing, 20 ms of another wait, then 7 ms of waiting, and 8 ms of updates."""
    with clock.step(41):
        with clock.loading():
            now.ms += 5
        now.ms += 60
        began = now()
        now.ms += 20
        clock.waited(began)
        if meets:
            with clock.meeting():
                wait(clock, now)
        else:
            wait(clock, now)
        with clock.updating():
            now.ms += 8


def wait(clock: StepClock, now: Time) -> None:
    """Wait for 7 ms."""
    began = now()
    now.ms += 7
    clock.waited(began)


@pytest.mark.parametrize(("meets", "before", "waited"), [(True, 85, 7), (False, 65, 20)])
def test_the_parts_of_a_step(tmp_path: Path, now: Time, meets: bool, before: int, waited: int) -> None:
    """The reduction of the gradients is where the ranks meet, if it is known; else the first wait."""
    now.ms = 1000
    clock = step_clock.of_host(tmp_path)
    clock.sees_waits = True
    train(clock, now, meets)
    clock.close()
    head, (step,) = written(tmp_path)
    assert head["rank"] == 3 and head["device"] == "cpu" and head["columns"] == [*COLUMNS]
    assert step == {"step": 41, "start": 1_000_000_000, "data": 5, "compute": 60, "before": before, "wait": waited,
                    "communication": 27, "optimizer": 8, "total": 100}  # fmt: skip


def test_what_a_clock_cannot_see_is_unknown(tmp_path: Path, now: Time) -> None:
    clock = step_clock.of_host(tmp_path)
    for number in range(2):
        clock.begin(number)  # which ends the step before
        now.ms += 30
    clock.close()
    _, steps = written(tmp_path)
    assert [step["total"] for step in steps] == [30, 30]
    assert {step[name] for step in steps for name in COLUMNS if name != "total"} == {UNKNOWN}


def test_nothing_between_steps_is_counted(tmp_path: Path, now: Time) -> None:
    clock = step_clock.of_host(tmp_path)
    clock.sees_waits = True
    train(clock, now, True)
    with clock.loading(), clock.updating():
        wait(clock, now)
    clock.close()
    _, steps = written(tmp_path)
    assert len(steps) == 1 and steps[0]["total"] == 100


def test_clocks_can_be_disabled(tmp_path: Path, now: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMBX_STEP_CLOCKS", "0")
    clock = step_clock.of_host(tmp_path)
    train(clock, now, True)
    clock.close()
    assert not (tmp_path / "step_clocks").exists()


def test_a_full_disk_does_not_end_the_training(tmp_path: Path, now: Time) -> None:
    clock = step_clock.of_host(tmp_path)
    assert clock._file is not None
    clock._file.close()
    clock._file = open("/dev/full", "wb")  # noqa: PTH123, SIM115
    for _ in range(5):
        train(clock, now, True)
        now.ms += 10_000
    clock.close()


class Device(HostTimer):
    """A GPU that is `behind` the host: its moments pass when the test says so, and not in a graph that it records."""

    device = "cuda"

    def __init__(self) -> None:
        self.done, self.records = False, False

    def now(self) -> Any:
        return None if self.records else time.monotonic_ns()

    def reached(self, moment: Any) -> bool:
        return self.done

    def reach(self, moment: Any) -> None:
        self.done = True


def test_steps_of_a_device_are_written_when_it_has_run_them(tmp_path: Path, now: Time) -> None:
    device = Device()
    clock = StepClock(tmp_path, device)
    train(clock, now, True)
    clock._file.flush()  # type: ignore[union-attr]
    assert written(tmp_path)[1] == []
    clock.close()
    head, (step,) = written(tmp_path)
    assert head["device"] == "cuda" and step["communication"] == UNKNOWN
    assert (step["data"], step["before"], step["wait"], step["optimizer"], step["total"]) == (5, 85, 7, 8, 100)
    assert step["compute"] == 85, "with data and the communication in the passes"


def test_what_a_device_records_as_a_graph_is_unknown(tmp_path: Path, now: Time) -> None:
    device = Device()
    clock = StepClock(tmp_path, device)
    with clock.step(0):
        device.records = True
        with clock.meeting(), clock.updating():
            now.ms += 5
        device.records = False
    clock.close()
    (step,) = written(tmp_path)[1]
    assert step["total"] == 5 and {step[name] for name in ("wait", "before", "optimizer", "compute")} == {UNKNOWN}
