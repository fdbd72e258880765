"""What is missing between the steps of a log, and how the parts of a check become one outcome."""

from __future__ import annotations

import pytest

from llmbx_kit.log_parser import missing_steps
from llmbx_kit.outcome import together


@pytest.mark.parametrize("numbers", [(), (1,), (1, 2, 3), (0, 10, 20), (3, 1, 2, 2)])
def test_a_log_whose_steps_have_one_distance_lacks_none(numbers: tuple[int, ...]) -> None:
    assert missing_steps(numbers) == ""


def test_the_steps_that_a_parser_loses_are_named() -> None:
    found = missing_steps([number for number in range(1, 31) if number % 10])
    assert found == "the parser finds steps 1 to 29 without 10, 20"


def test_a_check_is_ok_only_if_all_of_it_was_done() -> None:
    assert together([("ok", ["a"]), ("ok", ["b"])]) == ("ok", ["a", "b"])
    assert together([("ok", ["a"]), ("not checked", ["b: no scheduler"])]) == (
        "not checked", ["a", "not checked: b: no scheduler"],
    )  # fmt: skip
    assert together([("ok", ["a"]), ("not checked", ["b"]), ("failed", ["c"])]) == ("failed", ["c"])
    assert together([]) == ("not checked", [])
