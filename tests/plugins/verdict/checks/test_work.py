"""Every step does the work that was asked for: one step of other work is another job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.model import Event, RunSpec, Step
from llmbx.model.evidence import Evidence
from llmbx.run.checks import run_checks
from llmbx_verdict.judge import IntervalJudge

MakeSpec = Callable[..., RunSpec]


def answers(spec: RunSpec, odd: int, **changes: Any) -> dict[str, str]:
    """The findings about a run of 20 steps, of which the step `odd` has other members."""
    usual = {"global_batch_size": spec.global_batch_size, "tokens": spec.tokens_per_step}
    steps = tuple(Step(number=k, time_s=1.0, **{**usual, **(changes if k == odd else {})}) for k in range(1, 21))
    outcomes = run_checks(Evidence(steps=steps, spec=spec), IntervalJudge().checks())
    return {one.check: one.text for one in outcomes if one.check in ("batch", "tokens") and one.outcome == "invalid"}


@pytest.mark.parametrize("odd", [1, 12, 20])
def test_one_step_with_fewer_samples_or_tokens_is_invalid(make_spec: MakeSpec, odd: int) -> None:
    spec = make_spec(global_batch_size=8)
    assert answers(spec, odd) == {}
    assert answers(spec, odd, global_batch_size=4) == {
        "batch": f"step {odd} has 4 samples, not the 8 asked for",
    }
    half = spec.tokens_per_step // 2
    assert answers(spec, odd, tokens=half) == {
        "tokens": f"step {odd} has {half} tokens, not the {spec.tokens_per_step} asked for",
    }


def test_ranks_that_train_by_themselves_are_found_although_their_lines_are_mixed(make_spec: MakeSpec) -> None:
    alone = Event(kind="fact", text="world size 1", facts={"world_size": 1})
    steps = tuple(Step(number=number) for number in range(8))
    evidence = Evidence(steps=steps, events=(alone,), spec=make_spec(gpus=2), out_of_order="lines 4 and 9")
    outcomes = run_checks(evidence, IntervalJudge().checks())
    assert [(outcome.check, outcome.outcome) for outcome in outcomes] == [
        ("ranks", "invalid"),
        ("out-of-order", "invalid"),
    ]
