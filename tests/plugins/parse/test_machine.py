"""The MFU and the tokens per second of a log that no run of llmbx wrote, by the machine that the user states."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.cli.log_reading import LogReading
from llmbx.errors import UsageError
from llmbx.model import Result, Step
from llmbx.plugins.manager import load
from llmbx.run.collect import Log
from llmbx_parse.find import LogFile
from llmbx_parse.machine import UNKNOWN, Machine, machine_of
from llmbx_parse.parsed_log import ParsedLog


def measured(machine: Machine, **values: float) -> Result:
    """The figures of a log of 50 steps, each with these values, on a machine."""
    numbers = range(1, 51)
    steps = [Step(number=number, time_s=5.0, tflops_resolution=0.1, **values) for number in numbers]  # type: ignore[arg-type]
    reading = LogReading(Path("x.log"), Log(steps=steps), steps, None, None, None, load())
    log = ParsedLog(LogFile(path="x.log", experiment="x"), reading, None, ())
    return machine.measure(log, "35-44", checked=False)


def test_the_mfu_is_the_logs_rate_over_the_peak() -> None:
    placed = measured(machine_of("h100", None, None), tflops_per_gpu=400.0)
    assert placed.mfu.value == pytest.approx(400.0 / 989, rel=1e-3)
    assert any("BF16" in line for line in placed.warnings)
    narrow = measured(machine_of("H100", 64, "fp8"), tflops_per_gpu=400.0)
    assert narrow.mfu.value == pytest.approx(400.0 / 1979, rel=1e-3)


def test_what_the_log_does_not_say_is_unknown() -> None:
    placed = measured(machine_of("h100", 64, None))
    assert (placed.mfu.value, placed.tokens_per_s, placed.tokens_per_s_per_gpu) == (None, None, None)
    assert measured(UNKNOWN, tflops_per_gpu=400.0).mfu.value is None


def test_the_tokens_of_all_gpus_and_of_one_follow_from_each_other() -> None:
    whole = measured(machine_of(None, 64, None), tokens_per_s_per_gpu=8000.0)
    assert (whole.tokens_per_s_per_gpu, whole.tokens_per_s) == (8000.0, 512_000.0)
    each = measured(machine_of(None, 64, None), tokens=1_280_000)
    assert (each.tokens_per_s, each.tokens_per_s_per_gpu) == (256_000.0, 4000.0)


@pytest.mark.parametrize(
    ("gpu_type", "dtype", "text"),
    [("hh100", None, "did you mean 'h100'"), ("a100", "fp8", "no fp8 peak"), (None, "fp8", "requires --gpu-type")],
)
def test_an_unknown_peak_is_refused(gpu_type: str | None, dtype: str | None, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        machine_of(gpu_type, 64, dtype)
