"""Which of many machines is slower than the others."""

from __future__ import annotations

import random

import pytest

from llmbx_verdict.statistics.outliers import places


def machines(
    count: int, seed: int, spread: float = 0.01, noise: float = 0.003, **factors: float
) -> dict[str, list[float]]:
    """Times of ten repetitions on each machine; `factors` are those of slow ones."""
    draw = random.Random(seed)
    levels = {f"n{number}": draw.gauss(0, spread) for number in range(count)}
    return {
        name: [factors.get(name, 1.0) * (1 + level + draw.gauss(0, noise)) for _ in range(10)]
        for name, level in levels.items()
    }


@pytest.mark.parametrize(("count", "groups"), [(4, 300), (16, 300), (256, 75)])
def test_equal_machines_are_rarely_called_slow(count: int, groups: int) -> None:
    alarms = sum(any(place.slow for place in places(machines(count, seed)).values()) for seed in range(groups))
    assert alarms <= groups / 150


@pytest.mark.parametrize(("count", "factor"), [(4, 1.3), (16, 1.1), (256, 1.1)])
def test_a_slow_machine_is_found_with_its_interval(count: int, factor: float) -> None:
    hits = covered = 0
    for seed in range(100):
        place = places(machines(count, seed, spread=0.005, n2=factor))["n2"]
        assert place.low is not None and place.high is not None
        hits += bool(place.slow)
        covered += place.low <= factor - 1 <= place.high
    assert hits >= 95 and covered >= 93


def test_up_to_half_of_the_machines_may_be_slow() -> None:
    slow = {f"n{number}": 1.2 for number in range(7)}
    judged = places(machines(16, 1, spread=0.003, **slow))
    assert not any(place.slow for name, place in judged.items() if name not in slow)


def test_of_two_machines_it_is_unknown_which_is_slow() -> None:
    judged = places({"a": [1.0] * 5, "b": [2.0] * 5})
    assert [place.slow for place in judged.values()] == [None, None]
    assert judged["b"].value == pytest.approx(2.0)


def test_a_small_difference_is_not_slow_however_sure() -> None:
    times = {f"n{number}": [1.0] * 100 for number in range(64)} | {"n9": [1.02] * 100}
    assert places(times)["n9"].slow is False
