"""The search for the best parallelism: its rules, its ranking within the memory, and the published choice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from llmbx.model import Finding, RunSpec

from .conftest import Command

Answer = Callable[..., Any]
LLAMA = ("predict", "llama3.1", "--size", "70b", "--gpu-type", "h100", "--gpus", "512", "--best")


PLANS: list[dict[str, Any]] = []
"""The plan for Llama, once it was made: a search takes a second."""


@pytest.fixture
def llama(answer: Answer) -> dict[str, Any]:
    if not PLANS:
        PLANS.append(answer(*LLAMA, "--top", "40"))
    return PLANS[0]


def test_the_best_are_ranked_by_time_within_the_memory(llama: dict[str, Any]) -> None:
    plan = llama
    times = [choice["step_time_s"] for choice in plan["choices"]]
    assert len(times) == 40 and times == sorted(times)
    assert [choice["rank"] for choice in plan["choices"]] == list(range(1, 41))
    # A GPU that is sold as 80 GB has 80 GiB, as in `show` and `run`; 5 % of it are left.
    assert plan["memory_limit_gb"] == pytest.approx(81559 * 2**20 / 1e9)
    assert all(choice["memory_gb"] <= 0.95 * plan["memory_limit_gb"] for choice in plan["choices"])
    assert 0 < plan["fitting"] < plan["valid"]
    # The published choice has a rank. DGX Cloud recipes: TP 4, PP 4 or 8, VP 5 for 512 H100.
    published = plan["published"]
    assert (published["tp"], published["vp"]) == (4, 5)
    assert "recipes v25" in plan["published_from"]
    assert 1 <= plan["published_rank"] <= plan["fitting"] + 1
    assert plan["published_slower_percent"] == pytest.approx(
        100 * (published["step_time_s"] / plan["choices"][0]["step_time_s"] - 1)
    )


def test_the_frameworks_own_rules_decide_what_is_valid(
    answer: Answer, llama: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {choice["tp"] for choice in llama["choices"]} & {1, 2, 8}

    def only_four(spec: RunSpec) -> list[Finding]:
        return [] if spec.parallelism.tp == 4 else [Finding(rule="tp", problem="TP must be 4", fix="use TP 4")]

    monkeypatch.setattr("llmbx_nemo.rules.findings", only_four)
    after = answer(*LLAMA, "--top", "40")
    assert {choice["tp"] for choice in after["choices"]} == {4}
    assert after["valid"] < llama["valid"]


def test_experts_are_spread_over_a_divisor_of_their_number(answer: Answer) -> None:
    found = answer(
        "predict", "grok1", "--gpu-type", "h100", "--gpus", "512", "--dtype", "bf16", "--best", "--top", "30"
    )
    assert {choice["ep"] for choice in found["choices"]} <= {1, 2, 4, 8}


def test_no_valid_configuration_is_an_error(llmbx: Command) -> None:
    done = llmbx("predict", "llama3.1-8b", "--gpu-type", "h100", "--gpus", "7", "--set", "gbs=5", "--set", "mbs=1",
                 "--best")  # fmt: skip
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1


def test_the_table_names_the_published_choice(llmbx: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = llmbx(*LLAMA, "--top", "3")
    assert len(shown.stdout.splitlines()) == 4
    assert "published choice" in shown.stderr and "slower than the best by prediction" in shown.stderr


def test_a_published_split_of_layers_that_no_search_tries_is_ranked_too(answer: Answer, llmbx: Command) -> None:
    """DeepSeek-V3's 61 layers on GB200: stages by upstream's own layout, which no even division gives."""
    asked = ("predict", "deepseek-v3", "--gpu-type", "gb200", "--gpus", "256", "--dtype", "mxfp8", "--best")
    plan = answer(*asked)
    assert len(plan["choices"]) == 10
    assert plan["published"]["step_time_s"] >= plan["choices"][0]["step_time_s"]
    assert [choice["published"] for choice in plan["choices"]].count(True) == (plan["published_rank"] <= 10)
    assert plan["published_rank"] > 1 or plan["published_slower_percent"] == 0
    standing = llmbx(*asked).stderr.splitlines()[-1]
    assert standing.strip().startswith("rank ") and "-" not in standing


def test_a_layout_offloads_nothing_unless_it_says_so(answer: Answer, llmbx: Command) -> None:
    """The recipe offloads 40 layers of Llama 3.1 70B on GB300: other layouts do not inherit that."""
    asked = ("predict", "llama3.1", "--size", "70b", "--gpu-type", "gb300", "--gpus", "64", "--dtype", "fp8", "--best")
    plan = answer(*asked, "--top", "40")
    assert plan["published"]["offload_layers"] == 40
    same = ("tp", "pp", "cp", "mbs", "fsdp", "recompute")
    twin = [choice for choice in plan["choices"] if all(choice[name] == plan["published"][name] for name in same)]
    assert {choice["offload_layers"]: choice["published"] for choice in twin} == {40: True, 0: False}
    memory = {choice["offload_layers"]: choice["memory_gb"] for choice in twin}
    assert memory[0] > memory[40] + 50
    shown = llmbx(*asked)
    assert shown.stdout.splitlines()[0].split()[:2] == ["rank", "layout"] and "FSDP OL40" in shown.stdout


def test_the_published_figure_stands_beside_its_prediction(answer: Answer, llmbx: Command) -> None:
    """gpt-oss on GB300, release 26.08: 33,017 tokens/s per GPU."""
    asked = ("predict", "gpt-oss", "--gpu-type", "gb300", "--gpus", "64", "--dtype", "mxfp8", "--best", "--top", "1")
    assert answer(*asked)["published_tokens_per_s_per_gpu"] == pytest.approx(33_020, rel=1e-3)
    lines = llmbx(*asked).stderr.splitlines()
    assert max(map(len, lines)) <= 80
    rates = r"published choice \([^)]+\): 330\d\d tokens/s per GPU published, \d+ tokens/s per GPU predicted"
    assert re.search(rates, " ".join(" ".join(lines).split()))
