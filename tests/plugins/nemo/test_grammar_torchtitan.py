"""The parser for torchtitan's logs: releases, times from tokens or from stamps, several ranks, restarts."""

from __future__ import annotations

import pytest

from llmbx.logs.lines import CUT
from llmbx.run.collect import Log, collect
from llmbx_nemo.grammar import formats
from llmbx_nemo.grammar.torchtitan import TorchtitanParser

BEGUN = (
    "[rank0]:[titan] 2026-05-18 08:00:00,000 - root - INFO - Trainer is initialized with local batch size 2, global "
    "batch size 64, gradient accumulation steps 4, sequence length 4096, total steps 50 (warmup 2)"
)
ENDED = "[rank0]:[titan] 2026-05-18 08:10:00,000 - root - INFO - Training completed"
RATES = "grad_norm:  1.2345  memory: 66.91GiB(37.51%)  tps: 8,192  tflops: 1,400.02  mfu: 39.73%"


def line(number: int, rest: str = RATES, time_s: float = 4.0, rank: int = 0) -> str:
    seconds = number * time_s
    stamp = f"2026-05-18 08:{int(seconds) // 60:02}:{int(seconds) % 60:02},{round(seconds * 1000) % 1000:03}"
    return f"[rank{rank}]:[titan] {stamp} - root - INFO - step: {number:2}  loss: {12 - number / 50:8.5f}  {rest}"


def read(*lines: str) -> Log:
    return collect(TorchtitanParser(), [*lines])


def test_every_member_of_a_step() -> None:
    (step,) = read(BEGUN, line(1)).steps
    assert (step.number, step.total, step.loss, step.grad_norm) == (1, 50, 11.98, 1.2345)
    assert (step.tokens_per_s_per_gpu, step.tflops_per_gpu) == (8192.0, 1400.02)
    assert step.time_s == pytest.approx(2 * 4 * 4096 / 8192)
    assert (step.global_batch_size, step.tokens) == (64, 64 * 4096)


@pytest.mark.parametrize(
    ("rest", "rate", "tflops"),
    [
        ("memory:  1.41GiB(1.79%)  tps: 193,831  tflops: 18.36  mfu: 1.86%", 193831.0, 18.36),
        ("memory: 23.43GiB(24.66%)  wps: 1,111  mfu: 6.66%", 1111.0, None),
        ("memory:  1.41GiB(1.79%)  tps: 800  tflops: 0.52  mfu: N/A", 800.0, 0.52),
    ],
)
def test_the_lines_of_earlier_releases(rest: str, rate: float, tflops: float | None) -> None:
    (step,) = read(line(7, rest)).steps
    assert (step.tokens_per_s_per_gpu, step.tflops_per_gpu, step.grad_norm) == (rate, tflops, None)


def test_without_the_tokens_of_a_step_its_time_follows_from_the_stamps() -> None:
    times = [step.time_s for step in read(*(line(n) for n in (1, 2, 3, 10, 20))).steps]
    assert times == [None, *[pytest.approx(4.0)] * 4]


def test_a_line_of_ten_steps_has_their_mean() -> None:
    steps = read(BEGUN, *(line(n) for n in (1, *range(10, 51, 10))), ENDED).steps
    assert [step.covers for step in steps] == [1, 9, 10, 10, 10, 10]


def test_the_first_of_several_ranks_is_read() -> None:
    log = read(*(line(n, rank=rank) for n in range(1, 9) for rank in (3, 0, 1, 2)))
    assert [step.number for step in log.steps] == [*range(1, 9)] and not log.conflicts


def test_a_restart_and_a_cut_line() -> None:
    log = read(BEGUN, line(1), line(2), BEGUN, line(1), line(2), line(3)[:-3] + CUT)
    assert (log.attempts, [step.number for step in log.steps]) == (2, [1, 2])


def test_its_format_is_detected() -> None:
    seen = {format_.name: format_.sniff("\n".join([BEGUN, line(1), line(2)])) for format_ in formats()}
    assert max(seen, key=lambda name: seen[name]) == "torchtitan"
