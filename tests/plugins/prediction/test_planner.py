"""The search for the best parallelism: its rules, its ranking within the memory, and the published choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llmbx.model import Finding, RunSpec

from .conftest import Command

Answer = Callable[..., Any]
LLAMA = ("predict", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "512", "--best")


def test_the_best_are_ranked_by_time_within_the_memory(answer: Answer) -> None:
    plan = answer(*LLAMA)
    times = [choice["step_time_s"] for choice in plan["choices"]]
    assert len(times) == 10 and times == sorted(times)
    assert [choice["rank"] for choice in plan["choices"]] == list(range(1, 11))
    assert all(choice["memory_gb"] <= 80 for choice in plan["choices"])
    assert 0 < plan["fitting"] < plan["valid"]
    # The published choice has a rank. DGX Cloud recipes: TP 4, PP 4 or 8, VP 5 for 512 H100.
    published = plan["published"]
    assert (published["tp"], published["vp"]) == (4, 5)
    assert "recipes v25" in plan["published_from"]
    assert 1 <= plan["published_rank"] <= plan["fitting"] + 1
    assert plan["published_slower_percent"] == pytest.approx(
        100 * (published["step_time_s"] / plan["choices"][0]["step_time_s"] - 1)
    )


def test_the_frameworks_own_rules_decide_what_is_valid(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    before = answer(*LLAMA, "--top", "40")
    assert {choice["tp"] for choice in before["choices"]} & {1, 2, 8}

    def only_four(spec: RunSpec) -> list[Finding]:
        return [] if spec.parallelism.tp == 4 else [Finding(rule="tp", problem="TP must be 4", fix="use TP 4")]

    monkeypatch.setattr("llmbx_nemo.rules.findings", only_four)
    after = answer(*LLAMA, "--top", "40")
    assert {choice["tp"] for choice in after["choices"]} == {4}
    assert after["valid"] < before["valid"]


def test_experts_are_spread_over_a_divisor_of_their_number(answer: Answer) -> None:
    found = answer(
        "predict", "grok1", "--gpu-type", "h100", "--gpus", "512", "--dtype", "bf16", "--best", "--top", "30"
    )
    assert {choice["ep"] for choice in found["choices"]} <= {1, 2, 4, 8}


def test_no_valid_configuration_is_an_error(llmbx: Command) -> None:
    done = llmbx("predict", "llama3.1-8b", "--gpu-type", "h100", "--gpus", "7", "--set", "gbs=5", "--set", "mbs=1",
                 "--best")  # fmt: skip
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1


def test_the_table_names_the_published_choice(llmbx: Command) -> None:
    shown = llmbx(*LLAMA, "--top", "3")
    assert len(shown.stdout.splitlines()) == 4
    assert "published choice" in shown.stderr and "slower than the best by prediction" in shown.stderr
