"""Values of several ranks for one step become one value of the job, or none if a rank's is missing."""

from __future__ import annotations

import pytest

from llmbx.logs.over_ranks import OverRanks
from llmbx.model import Measure, Step
from llmbx.model.measure import OverRanks as How


def measure(how: How | None) -> Measure:
    return Measure(name="images", unit="images", kind="count", over_ranks=how)


def combined(how: How, *values: tuple[int, int, float]) -> OverRanks:
    """Each value is (rank, step, value)."""
    over = OverRanks([measure(how)])
    for rank, number, value in values:
        assert over.split(Step(number=number, loss=1.0, measures={"images": value}), rank).measures == {}
    return over


@pytest.mark.parametrize(("how", "value"), [("sum", 12.0), ("mean", 4.0), ("max", 7.0), ("min", 2.0)])
def test_the_values_of_all_ranks_are_combined(how: How, value: float) -> None:
    over = combined(how, (0, 1, 3.0), (1, 1, 2.0), (2, 1, 7.0))
    assert [(step.number, step.measures) for step in over.steps()] == [(1, {"images": value})]
    assert [*over.problems()] == []


def test_a_step_without_the_value_of_every_rank_has_none() -> None:
    over = combined("sum", (0, 1, 3.0), (1, 1, 2.0), (0, 2, 3.0))
    assert [step.number for step in over.steps()] == [1]
    assert [*over.problems()] == [
        "measure images: 1 step is without the value of a rank, and therefore without a value"
    ]
    over.expect(2)
    assert [*over.steps()] == [], "a rank whose file exists, but has no value"


def test_a_rank_with_two_values_for_a_step_gives_none() -> None:
    over = combined("sum", (0, 1, 3.0), (1, 1, 2.0), (1, 1, 4.0), (0, 2, 1.0), (1, 2, 1.0))
    assert [step.number for step in over.steps()] == [2]
    assert "two values of one rank" in next(iter(over.problems()))


def test_memory_does_not_grow_with_the_number_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    over = combined("sum", (10**9, 1, 3.0), (0, 1, 2.0))
    assert [step.measures for step in over.steps()] == [{"images": 5.0}]
    assert max(over._bits.values()).bit_length() == 2
    monkeypatch.setattr(OverRanks, "MOST_RANKS", 2)
    assert [*combined("sum", (0, 1, 1.0), (1, 1, 1.0), (2, 1, 1.0)).steps()] == [], "one rank too many: unknown"


def test_a_value_of_no_rank_or_of_a_measure_that_is_not_combined_is_the_jobs() -> None:
    step = Step(number=1, measures={"images": 3.0})
    assert OverRanks([measure("sum")]).split(step, None) == step
    assert OverRanks([measure(None)]).split(step, 3) == step
