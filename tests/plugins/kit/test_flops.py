"""Counted operations against formulas, with the masks of sliding windows."""

from __future__ import annotations

import pytest

from llmbx.model import Flops
from llmbx.model.layers import Term
from llmbx_kit.flops import Counted, compare

TOKENS, HIDDEN, HEADS = 256, 64, 4


def formula(window: int | None, factor: float = 1.0) -> Flops:
    """One layer of attention and a feed-forward layer."""
    terms = [Term.attention(TOKENS, HIDDEN, HEADS, window=window), Term.mlp(TOKENS, HIDDEN, int(factor * 128))]
    return Flops.total(terms, "mine-1")


def counted(window: int | None, known: bool = True) -> Counted:
    """What a program that multiplies all pairs counts for two samples, and how many of them its mask hides."""
    right, per_pair = formula(None), 3 * 4 * HIDDEN
    seen = sum(min(position + 1, window or TOKENS) for position in range(TOKENS))
    hidden = 2 * per_pair * (TOKENS**2 - seen)
    return Counted(
        flops=2 * right.full, samples=2, hidden=hidden if known else None, per_position=2 * per_pair * TOKENS
    )


@pytest.mark.parametrize("window", [None, 32, 100, TOKENS])
def test_a_right_formula_with_and_without_a_window(window: int | None) -> None:
    found = compare(counted(window), formula(window))
    assert (found.problems, found.unchecked) == ((), "")
    assert "+0.00 % of mine-1" in found.text


@pytest.mark.parametrize(("claimed", "real"), [(64, 32), (32, 64), (None, 64), (64, None), (64, TOKENS)])
def test_a_wrong_window(claimed: int | None, real: int | None) -> None:
    (problem,) = compare(counted(real), formula(claimed)).problems
    assert "the masks hide" in problem and "compare its windows with those of the program" in problem


def test_a_window_that_the_program_does_not_mask() -> None:
    plain = Counted(flops=formula(None).full, samples=1, hidden=0.0)
    assert compare(plain, formula(None)).problems == ()
    (problem,) = compare(plain, formula(64)).problems
    assert problem == "mine-1 has a window or chunks, and the program's masks hide no pair"


@pytest.mark.parametrize("window", [None, 64])
@pytest.mark.parametrize("known", [True, False])
def test_a_formula_that_is_wrong_by_a_factor(window: int | None, known: bool) -> None:
    (problem,) = compare(counted(window, known), formula(window, factor=1.5)).problems
    assert " % of mine-1" in problem


def test_a_program_that_does_not_state_its_masks() -> None:
    assert compare(counted(None, known=False), formula(None)).unchecked == ""
    assert compare(counted(64, known=False), formula(64)).unchecked.startswith("the window: ")


def test_a_program_that_multiplies_the_pairs_of_its_window_only() -> None:
    right = formula(64)
    for pairs in (right.full, right.causal):
        found = compare(Counted(flops=pairs, samples=1), right)
        assert (found.problems, found.unchecked) == ((), "")


def test_a_formula_without_all_pairs_says_how_to_state_them() -> None:
    own = Flops(full=formula(64).full, causal=formula(64).causal, formula="own-1")
    (problem,) = compare(counted(64), own).problems
    assert problem.endswith("the formula states them as all_pairs")
