"""Rank selectors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.errors import UsageError
from llmbx.resolve.ranks import choose, numbers, spell


@pytest.mark.parametrize(
    ("selector", "world", "stages", "chosen"),
    [
        ("first,mid,last", 64, 4, "0,32,48"),
        ("first,mid,last", 1024, 8, "0,512,896"),
        ("first,mid,last", 8, 1, "0"),
        ("first,mid,last", 4, 2, "0,2"),
        ("all", 2048, 8, "all"),
        ("0-7", 8, 1, "all"),
        ("0-8", 128, 1, "0-8"),
        ("5, 3,4, 9-9", 16, 1, "3-5,9"),
        ("LAST,0", 16, 4, "0,12"),
    ],
)
def test_selectors_become_numbers(selector: str, world: int, stages: int, chosen: str) -> None:
    assert choose(selector, world, stages) == chosen


def test_seed_is_the_recipes_selector_without_missing_ranks() -> None:
    assert choose("seed", 128, 2, "0-8") == "0-8"
    assert choose("seed", 4, 1, "0-8") == "all"
    assert choose("seed,last", 64, 2, "0") == "0,32"


@pytest.mark.parametrize("selector", ["", "middle", "0-", "7-3", "-1", "0,,1", "0-8x", "16", "0-16"])
def test_invalid_ranks_are_rejected(selector: str) -> None:
    with pytest.raises(UsageError, match="ranks"):
        choose(selector, 16, 4)


@settings(deadline=None)
@given(
    st.integers(1, 300).flatmap(lambda world: st.tuples(st.just(world), st.sets(st.integers(0, world - 1), min_size=1)))
)
def test_spell_is_the_inverse_of_numbers(case: tuple[int, set[int]]) -> None:
    world, chosen = case
    assert numbers(spell(chosen), world) == tuple(sorted(chosen))
    assert numbers(choose(spell(chosen), world, 1), world) == tuple(sorted(chosen))
