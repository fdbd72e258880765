"""Telling a log out of order from a training that was restarted."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.logs.restarts import FELL_TO, Attempt, Attempts, Place, misplaced


def lines_of(numbers: list[int], starts: tuple[int, ...] = ()) -> tuple[int, int] | None:
    """The lines that are out of order in a log with these step numbers, one a line.

    Before the places `starts` it has the line of a new training.
    """
    parser, attempts = Attempts(), [Attempt(by_number=False, steps=[])]
    for place, number in enumerate(numbers):
        events = parser.start("start") if place in starts else []
        for event in (*events, *parser.step(number, "step")):
            attempts.append(Attempt(FELL_TO in event.facts, steps=[]))
        if number not in attempts[-1].numbers:
            attempts[-1].steps.append(Place(number, place + 1))
    fall = misplaced(attempts)
    return (fall[0].line, fall[1].line) if fall else None


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
        ([10, 20, 30, 40, 30, 40, 50], ()),
        ([38, 39, 40, 20, 21, 22], ()),
        ([5, 6, 7, 1], ()),
        ([1, 1, 1, 5, 1, 2], ()),
        ([10, 11, 14, 12, 13, 14, 15], ()),
        ([36, 37, 20, 22, 24], ()),
        ([1, 2, 2, 3, 2, 3, 4], ()),  # two ranks
        ([3], ()),
        ([], ()),
    ],
)
def test_a_training_and_its_restarts_are_in_order(numbers: list[int], starts: tuple[int, ...]) -> None:
    assert lines_of(numbers, starts) is None


@pytest.mark.parametrize(
    ("numbers", "lines"),
    [
        ([*range(50, 0, -1)], (1, 3)),
        ([*range(50, 30, -1), *range(28, 0, -1)], (1, 3)),  # with a line lost
        ([*range(26, 51), *range(1, 26)], (25, 26)),  # two parts of one log, the second first
        ([*range(100, 0, -10)], (1, 2)),
        ([4, 3, 2, 1], (1, 3)),
    ],
)
def test_a_log_of_one_training_out_of_order_names_the_first_lines(numbers: list[int], lines: tuple[int, int]) -> None:
    assert lines_of(numbers) == lines
    assert lines_of(numbers, (len(numbers) - 1,)), "the line of the start may be anywhere"


def test_a_log_of_two_trainings_out_of_order_is_noticed() -> None:
    assert lines_of([*range(50, 0, -1), *range(50, 0, -1)])
    both = [*range(1, 51), *range(1, 51)]
    random.Random(1).shuffle(both)
    assert lines_of(both)


@pytest.mark.parametrize(
    ("numbers", "lines"),
    [
        ([34, 35, 36, 3, 38, 39], (3, 4)),  # 3 for 37
        ([34, 35, 36, 377, 38, 39], (4, 5)),  # 377 for 37
        ([10, 20, 30, 4, 50, 60], (3, 4)),  # every tenth step is printed
        ([33, 33, 34, 34, 35, 35, 3, 36, 36, 37], (5, 7)),  # beside the same step of another process
        ([1, 2, 3, 1, 2, 3, 4, 5, 1, 7, 8], (8, 9)),  # after a restart
    ],
)
def test_a_damaged_number_is_out_of_order_and_no_restart(numbers: list[int], lines: tuple[int, int]) -> None:
    assert lines_of(numbers) == lines


def test_lost_lines_that_a_slower_process_prints_later_are_no_disorder() -> None:
    """As in a format that leaves the restarts to the stamps of its lines: all steps are of one attempt."""

    def one_attempt(numbers: list[int]) -> list[Attempt]:
        return [Attempt(by_number=False, steps=[Place(number) for number in numbers])]

    assert misplaced(one_attempt([*range(5), *range(6, 20), 5, 20, *range(22, 50), 21])) is None
    assert misplaced(one_attempt([*range(50, 0, -1)])) == (Place(50), Place(48))


@given(st.permutations(range(1, 31)))
def test_several_falls_in_the_lines_of_one_training_are_noticed(numbers: list[int]) -> None:
    """Lines of neighbouring steps that change places are usual and say nothing."""
    if sum(after < before - 1 for before, after in pairwise(numbers)) > 1:
        assert lines_of(numbers)
