from pathlib import Path

import pytest

from llmbx.testing import CHECKS, assert_conforms

LOG = Path(__file__).with_name("train.log").read_text(encoding="utf-8")
"""torchtitan 0.3.0 with PyTorch 2.13.0 on a CPU, two ranks: what rank 0 printed."""


@pytest.mark.parametrize("check", CHECKS)
def test_it_conforms(check):
    assert_conforms("torchtitan", check, LOG)


def test_the_log(llmbx_spec, llmbx_parse):
    parsed = llmbx_parse(LOG, llmbx_spec("torchtitan", gpus=2))
    assert [step.number for step in parsed.steps] == [*range(1, 31)] and parsed.steps[0].total == 30
    first, second = parsed.steps[:2]
    assert (first.loss, first.grad_norm, first.global_batch_size) == (8.14817, 0.7326, 4)
    assert second.time_s == pytest.approx(2 * 128 / 504)  # two samples of 128 tokens at 504 tokens/s
    assert second.printed_at - first.printed_at == pytest.approx(second.time_s, rel=0.01)
    assert first.peak_memory_bytes is None  # -0.00GiB: not known on a CPU
    facts = {name: value for event in parsed.events for name, value in event.facts.items()}
    assert (facts["parameters"], facts["micro_batch_size"], facts["sequence_length"]) == (6163712, 2, 128)
    assert any(event.kind == "finished" for event in parsed.events)


def test_a_line_that_was_cut_is_no_step(llmbx_spec, llmbx_parse):
    (line,) = [line for line in LOG.splitlines() if "step:  2 " in line]
    assert len(llmbx_parse(f"{line}\n", llmbx_spec("torchtitan")).steps) == 1
    assert llmbx_parse(f"{line[:-3]}…\n", llmbx_spec("torchtitan")).steps == []
