"""The MFU and the tokens per second of a log that no run of llmbx wrote, by the machine that the user states."""

from __future__ import annotations

import pytest

from llmbx.cli.parse_machine import machine_of
from llmbx.errors import UsageError
from llmbx.measure.figures import measure
from llmbx.model import Figures, Step


def figures(**values: float) -> Figures:
    steps = [Step(number=number, time_s=5.0, tflops_resolution=0.1, **values) for number in range(1, 51)]  # type: ignore[arg-type]
    return measure(None, steps, policy="35-44")


def test_the_mfu_is_the_logs_rate_over_the_peak() -> None:
    placed = machine_of("h100", None, None).place(figures(tflops_per_gpu=400.0))
    assert placed.mfu.value == pytest.approx(400.0 / 989, rel=1e-3)
    assert any("BF16" in line for line in placed.warnings)
    narrow = machine_of("H100", 64, "fp8").place(figures(tflops_per_gpu=400.0))
    assert narrow.mfu.value == pytest.approx(400.0 / 1979, rel=1e-3)


def test_what_the_log_does_not_say_is_unknown() -> None:
    placed = machine_of("h100", 64, None).place(figures())
    assert (placed.mfu.value, placed.tokens_per_s, placed.tokens_per_s_per_gpu) == (None, None, None)
    assert figures(tflops_per_gpu=400.0).mfu.value is None


def test_the_tokens_of_all_gpus_and_of_one_follow_from_each_other() -> None:
    whole = machine_of(None, 64, None).place(figures(tokens_per_s_per_gpu=8000.0))
    assert (whole.tokens_per_s_per_gpu, whole.tokens_per_s) == (8000.0, 512_000.0)
    each = machine_of(None, 64, None).place(figures(tokens=1_280_000))
    assert (each.tokens_per_s, each.tokens_per_s_per_gpu) == (256_000.0, 4000.0)


@pytest.mark.parametrize(
    ("gpu_type", "dtype", "text"),
    [("h101", None, "did you mean 'h100'"), ("a100", "fp8", "no fp8 peak"), (None, "fp8", "requires --gpu-type")],
)
def test_an_unknown_peak_is_refused(gpu_type: str | None, dtype: str | None, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        machine_of(gpu_type, 64, dtype)
