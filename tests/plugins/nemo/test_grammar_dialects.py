"""The iteration lines of frameworks made from Megatron-LM, which print other names, units and fields.

The lines are modelled on public logs and on what the frameworks' `training_log` formats.
"""

# ruff: noqa: E501 (log lines are as long as they are)

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx.logs.parser import LogFormat
from llmbx.model import Step
from llmbx.run.collect import collect
from llmbx_nemo.grammar import MegatronParser, formats

END = "number of skipped iterations:   0 | number of nan iterations:   0 |"
PRIMUS = " [2026-05-13 08:00:24.112485] iteration        7/      50 | consumed samples:          896 | elapsed time per iteration (ms): 5007.6/5010.6 |"
TITAN = "[rank0]:[titan] 2026-05-13 08:00:24,508 - root - INFO - iteration        7/      50 | elapsed time per iteration (ms): 5007.6 |"
DEEPSPEED = " iteration        7/      50 | consumed samples:        14336 | consumed tokens:     29360128 |"
NEOX = " samples/sec: 51.234 | iteration        7/      50 | elapsed time per iteration (ms): 5007.6 | learning rate: 1.234E-04 |"

DIALECTS = {
    "Primus 26.5": (
        f"{PRIMUS} hip mem usage/free/total/usage_ratio: 120.10GB/71.8GB/191.98GB/62.60% | compute per GPU (TFLOP/s/GPU): 399.4 (avg 400.4) | tokens/s/GPU inst/harmonic mean: 7987.9/7980.9 | learning rate: 1.0E-05 | global batch size:   128 | lm loss: 1.185000E+01 | loss scale: 1.0 | grad norm: 1.234 | {END}",
        (5.0076, 399.4, 7987.9, 11.85),
    ),
    "Primus 26.4 with means": (
        f"{PRIMUS} throughput per GPU (TFLOP/s/GPU): 1290.3/1162.8  | tokens/s/GPU inst/harmonic mean: 25032.8/22288.1 | lm loss: 1.185000E+01 | grad norm: 1.234 | {END}",
        (5.0076, 1290.3, 25032.8, 11.85),
    ),
    "Primus with torchtitan": (
        f"{TITAN} memory usage/free/total: 145.40GiB/142.58GiB/(50.49%) | throughput per GPU (TFLOP/s/GPU): 399.4 | tokens per GPU (tokens/s/GPU): 7987.9 | global batch size:   128 | loss: 1.185000E+01 | grad norm: 7.872 | mfu: 45.67% |",
        (5.0076, 399.4, 7987.9, 11.85),
    ),
    "Megatron-DeepSpeed": (
        f"{DEEPSPEED} elapsed time per iteration (ms): 5007.6 | lm loss: 1.185000E+01 | actual seqlen:  2048 | {END} samples per second: 410.0 | tokens per gpu per second (tgs): 7987.900 | TFLOPs: 399.40 |",
        (5.0076, 399.4, 7987.9, 11.85),
    ),
    "Megatron-DeepSpeed in seconds": (
        f"vm-07: {DEEPSPEED} elapsed time per iteration (s): 5.01 | lm loss: 1.185000E+01 | grad norm: 0.114 | num zeros: 0.0 | {END} samples per second: 410.0 | TFLOPs: 399.40 | TGS: 7987.90 |",
        (5.01, 399.4, 7987.9, 11.85),
    ),
    "GPT-NeoX": (
        f"{NEOX} approx flops per GPU: 399.4TFLOPS | lm_loss: 1.185000E+01 | loss scale: 1.0 | {END}",
        (5.0076, 399.4, None, 11.85),
    ),
    "GPT-NeoX beyond 1000 TFLOPS": (
        f"{NEOX} approx flops per GPU: 1.2PFLOPS | lm_loss: 1.185000E+01 | {END}",
        (5.0076, 1200.0, None, 11.85),
    ),
    "a fork of GPT-NeoX": (
        f"{NEOX} approx flops per GPU: 399.4TFLOPS | batch size (tokens): 3.1M (6.3M @ 2048 GPUs) | tokens/s/gpu: 7987.9 | lm_loss: 1.185000E+01 | {END}",
        (5.0076, 399.4, 7987.9, 11.85),
    ),
    "fields with spaces": (
        f"{PRIMUS} iteration time: 5.008 s samples/sec: 5.1 | ETA: 1 day, 2:03:04 | throughput per GPU (TFLOP/s/GPU): 399.4 | lm loss: 1.185000E+01 | {END}",
        (5.0076, 399.4, None, 11.85),
    ),
    "another order and several losses": (
        f"{PRIMUS} mtp_1 loss: 7.9E+00 | load_balancing_loss: 1.0E+00 | z_loss: 2.0E+00 | train loss: 1.185000E+01 | grad norm: 1.2 | throughput per GPU (TFLOP/s/GPU): 399.4 | {END}",
        (5.0076, 399.4, None, 11.85),
    ),
    "its own loss beside the model's": (
        f"{PRIMUS} total loss: 1.300000E+01 | lm loss: 1.185000E+01 | throughput per GPU (TFLOP/s/GPU): 399.4 | {END}",
        (5.0076, 399.4, None, 11.85),
    ),
}  # fmt: skip


def step(line: str) -> Step:
    (found,) = collect(MegatronParser(), [line]).steps
    return found


@pytest.mark.parametrize("name", DIALECTS)
def test_time_rates_and_loss_of_a_dialect(name: str) -> None:
    line, (time, tflops, tokens, loss) = DIALECTS[name]
    found = step(line)
    assert (found.number, found.total) == (7, 50)
    assert (found.time_s, found.tflops_per_gpu) == (pytest.approx(time), pytest.approx(tflops))
    assert (found.tokens_per_s_per_gpu, found.loss) == (tokens, loss)


@pytest.mark.parametrize("name", DIALECTS)
def test_the_format_of_a_dialect_is_detected(tmp_path: Path, name: str) -> None:
    log = tmp_path / "log.out"
    log.write_text(DIALECTS[name][0] + "\n")
    found = LogFormat.recognize(log, formats())
    assert found is not None and found.name == "megatron-lm"


def test_the_resolution_is_that_of_the_printed_unit() -> None:
    assert step(DIALECTS["GPT-NeoX"][0]).tflops_resolution == pytest.approx(0.1)
    assert step(DIALECTS["GPT-NeoX beyond 1000 TFLOPS"][0]).tflops_resolution == pytest.approx(100.0)


def test_the_tokens_of_a_step_follow_from_its_samples_and_their_length() -> None:
    line = f"{DEEPSPEED} elapsed time per iteration (s): 5.01 | global batch size:  2048 | actual seqlen:  2048 | {END}"
    assert step(line).tokens == 2048 * 2048


def test_auxiliary_losses_are_not_the_models() -> None:
    line = f"{PRIMUS} mtp_1 loss: 7.9E+00 | load_balancing_loss: 1.0E+00 | loss scale: 1.0 | {END}"
    assert step(line).loss is None
