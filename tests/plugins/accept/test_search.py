"""The search for slow nodes, on step times that are drawn at random with the spread of published repeats."""

from __future__ import annotations

import math
import random

import pytest

from llmbx_accept.bisect.decision import Judgement
from llmbx_accept.bisect.search import Outcome, search


def found(
    nodes: int, slow: dict[str, float], seed: int, spread: float = 0.0054, most_runs: int | None = None
) -> tuple[Outcome, set[int]]:
    """What the search says of nodes n0, n1 …, and the numbers of nodes of its runs."""
    chance = random.Random(seed)
    judgement = Judgement(difference=0.03, spread=spread, error=0.05 / (8 * math.log2(nodes)))
    asked = search([f"n{number}" for number in range(nodes)], judgement, most_runs)
    sizes: set[int] = set()
    try:
        ask = next(asked)
        while True:
            sizes.add(len(ask.nodes))
            assert set(ask.tried) <= set(ask.nodes) and len(set(ask.nodes)) == len(ask.nodes)
            factor = max(1 + slow.get(node, 0.0) for node in ask.nodes)
            ask = asked.send(2.5 * factor * chance.lognormvariate(0, spread))
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome, sizes


def drawn(nodes: int, count: int, seed: int) -> dict[str, float]:
    chance = random.Random(seed)
    return {f"n{number}": chance.uniform(0.05, 0.1) for number in chance.sample(range(nodes), count)}


@pytest.mark.parametrize(("nodes", "count"), [(16, 1), (16, 4), (100, 2), (1024, 1), (1024, 4)])
def test_the_slow_nodes_are_found_in_few_runs(nodes: int, count: int) -> None:
    outcomes = [(drawn(nodes, count, seed), found(nodes, drawn(nodes, count, seed), seed)[0]) for seed in range(40)]
    right = [set(slow) == set(outcome.slow) and not outcome.undecided for slow, outcome in outcomes]
    assert sum(right) >= 38
    runs = sum(outcome.runs for _, outcome in outcomes) / len(outcomes)
    assert runs <= 2 * count * math.log2(nodes) * (1.25 if nodes < 64 else 1)
    slow, outcome = outcomes[0]
    assert outcome.slow == {node: pytest.approx(slower, abs=0.02) for node, slower in slow.items()}


def test_of_equal_nodes_none_is_slow() -> None:
    outcome, _ = found(64, {}, 3)
    assert outcome.equal and not outcome.slow


def test_a_mildly_slow_node_beside_a_slower_one_is_found_too() -> None:
    outcome, _ = found(64, {"n8": 0.2, "n9": 0.06}, 5)
    assert set(outcome.slow) == {"n8", "n9"}


def test_all_runs_are_of_one_size() -> None:
    _, sizes = found(64, {"n40": 0.06}, 7)
    assert sizes == {8}


def test_a_search_that_is_cut_short_says_what_it_does_not_know() -> None:
    outcome, _ = found(64, {"n40": 0.06}, 7, most_runs=10)
    assert outcome.runs == 10 and not outcome.slow and not outcome.equal
    assert "n40" in outcome.undecided and "n0" in outcome.healthy
