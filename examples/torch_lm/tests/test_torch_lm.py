from pathlib import Path

import pytest

from llmbx.testing import CHECKS, assert_conforms

LOG = Path(__file__).with_name("train.log").read_text()


@pytest.mark.parametrize("check", CHECKS)
def test_it_conforms(check):
    assert_conforms("torch_lm", check, LOG)


def test_the_log(llmbx_spec, llmbx_parse):
    parsed = llmbx_parse(LOG, llmbx_spec("torch_lm", steps=3, window="1-3"))
    assert [step.grad_norm for step in parsed.steps] == [1.5, 1.4, 1.3]
    assert parsed.figures.step_time_s.mean == pytest.approx(0.2)
