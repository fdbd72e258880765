"""Telling a log out of order from a training that was restarted."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.logs.order import LogOrder, Order
from llmbx.logs.restarts import FELL_TO, Attempts


def order_of(numbers: list[int], starts: tuple[int, ...] = ()) -> LogOrder:
    """The order of a log with these step numbers; before the places `starts` it has the line of a new training."""
    attempts, order, current = Attempts(), Order(), dict[int, None]()
    for place, number in enumerate(numbers):
        events = attempts.start("start") if place in starts else []
        for event in (*events, *attempts.step(number, "step")):
            order.begin(current, FELL_TO in event.facts)
            current = {}
        if number not in current:
            order.step(number)
        current[number] = None
    return order.decide(current)


@pytest.mark.parametrize(
    ("numbers", "starts"),
    [
        ([*range(1, 51)], ()),
        ([*range(1, 51), *range(1, 51)], (50,)),
        ([*range(1, 51), *range(20, 51)], ()),  # from the checkpoint of step 19
        ([*range(1, 41), *range(20, 31), *range(25, 51)], ()),
        ([n for n in range(1, 51) if n != 20] + [*range(20, 51)], ()),  # the line of the checkpoint's step was lost
        ([*range(101, 151), *range(1, 21)], (50,)),  # the checkpoint was lost
        ([*range(101, 151), *range(1, 21)], ()),
        ([*range(10, 101, 10), *range(50, 101, 10)], ()),
        ([1, 2, 2, 3, 2, 3, 4], ()),  # two ranks
        ([3], ()),
        ([], ()),
    ],
)
def test_a_training_and_its_restarts_are_in_order(numbers: list[int], starts: tuple[int, ...]) -> None:
    assert order_of(numbers, starts) == "printed"


@pytest.mark.parametrize(
    "numbers",
    [
        [*range(50, 0, -1)],
        [*range(50, 30, -1), *range(28, 0, -1)],  # with a line lost
        [*range(26, 51), *range(1, 26)],  # two parts of one log, the second first
        [*range(100, 0, -10)],
        [4, 3, 2, 1],
    ],
)
def test_a_log_of_one_training_out_of_order_is_sorted(numbers: list[int]) -> None:
    assert order_of(numbers) == "sorted"
    assert order_of(numbers, (len(numbers) - 1,)) == "sorted", "the line of the start may be anywhere"


def test_a_log_of_two_trainings_out_of_order_is_not() -> None:
    assert order_of([*range(50, 0, -1), *range(50, 0, -1)]) == "mixed"
    both = [*range(1, 51), *range(1, 51)]
    random.Random(1).shuffle(both)
    assert order_of(both) == "mixed"


def test_lost_lines_that_a_slower_process_prints_later_are_no_disorder() -> None:
    """As in a format that leaves the restarts to the stamps of its lines: all steps are of one attempt."""
    order = Order()
    numbers = [*range(5), *range(6, 20), 5, 20, *range(22, 50), 21]
    for number in numbers:
        order.step(number)
    assert order.decide(numbers) == "printed"
    reversed_ = Order()
    for number in range(50, 0, -1):
        reversed_.step(number)
    assert reversed_.decide(range(1, 51)) == "sorted"


@given(st.permutations(range(1, 31)))
def test_any_order_of_the_lines_of_one_training_is_sorted(numbers: list[int]) -> None:
    """Lines of neighbouring steps that change places are usual and say nothing."""
    if any(number < max(numbers[: place + 1]) - 1 for place, number in enumerate(numbers)):
        assert order_of(numbers) in ("sorted", "printed")
    if sum(after < before - 1 for before, after in pairwise(numbers)) > 1:
        assert order_of(numbers) == "sorted"
