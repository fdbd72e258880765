"""Choice of the measured steps, and the reported reason."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.errors import UsageError
from llmbx.measure.window import check, choose
from llmbx.model import Step


def steps(times: list[float | None], first: int = 1) -> list[Step]:
    return [Step(number=first + k, time_s=t) for k, t in enumerate(times)]


def numbers(found: list[Step]) -> list[int]:
    return [step.number for step in found]


def test_a_range_is_inclusive_and_in_the_logs_own_numbers() -> None:
    window, found = choose(steps([1.0] * 50, first=0), "35-44")
    assert numbers(found) == list(range(35, 45))
    assert (window.first, window.last, window.policy, window.excluded) == (35, 44, "35-44", ())


def test_excluded_steps_and_steps_without_a_time_are_left_out() -> None:
    times: list[float | None] = [1.0] * 50
    times[36] = None
    window, found = choose(steps(times), "35-44", {40, 41, 60})
    assert numbers(found) == [35, 36, 38, 39, 42, 43, 44]
    assert window.excluded == (40, 41)


def test_a_range_with_holes_says_so_and_skipped_steps_are_holes() -> None:
    whole = steps([1.0] * 50)
    window, found = choose([s.replace(skipped=s.number in (40, 41)) for s in whole if s.number != 37], "35-44", {36})
    assert numbers(found) == [35, 38, 39, 42, 43, 44]
    assert window.reason == "as requested; only 6 of 9 steps could be measured"
    window, found = choose([s for s in whole if not 35 <= s.number <= 44], "35-44")
    assert found == [] and window.reason == "no step in it has a time"
    _, settled = choose([s.replace(skipped=s.number == 40) for s in whole], "auto")
    assert 40 not in numbers(settled) and 41 in numbers(settled)


@pytest.mark.parametrize(("count", "measured"), [(43, 0), (44, 10), (45, 10), (0, 0)])
def test_a_range_that_is_not_reached_measures_nothing(count: int, measured: int) -> None:
    window, found = choose(steps([1.0] * count), "35-44")
    assert len(found) == measured
    if count == 43:
        assert window.reason == "the log ends at step 43"


def test_last_is_the_last_step_that_has_a_time() -> None:
    window, found = choose(steps([3.0, 2.0, 1.0, None]), "last")
    assert numbers(found) == [3] and (window.first, window.last) == (3, 3)
    assert numbers(choose(steps([3.0, 2.0, 1.0]), "last", {3})[1]) == [2]
    assert choose([], "last")[1] == []


def test_auto_on_five_steps() -> None:
    window, found = choose(steps([20.0, 5.72, 5.7, 5.71, 5.7]), "auto")
    assert numbers(found) == [2, 3, 4, 5]
    assert window.reason == "step 1 dropped as warm-up"


def test_auto_on_fifty_steps_drops_the_first_third_and_the_incomplete_end() -> None:
    times: list[float | None] = [60.0, 12.0, 9.0, 7.0, 6.5, *[5.7 + 0.01 * (k % 3) for k in range(44)], None]
    window, found = choose(steps(times, first=0), "auto")
    assert numbers(found) == list(range(16, 49))
    assert (window.first, window.last) == (16, 48)
    assert window.reason == "steps 0-15 dropped as warm-up"


def test_auto_drops_a_longer_warm_up_as_a_whole() -> None:
    window, found = choose(steps([9.0, *[1.5] * 20, *[1.0] * 28]), "auto")
    assert numbers(found) == list(range(22, 50))
    assert window.reason == "steps 1-21 dropped as warm-up: slower than all steps of the second half"


def test_auto_does_not_choose_by_which_steps_are_slow_or_fast() -> None:
    usual = numbers(choose(steps([9.0, *[1.0] * 41]), "auto")[1])
    assert usual == list(range(15, 43))
    for odd in (1, 5, 13, 14, 20, 27, 40):
        for time in (0.1, 1.3, 30.0):
            times: list[float | None] = [9.0, *[1.0] * 41]
            times[odd] = time
            assert numbers(choose(steps(times), "auto")[1]) == usual


def test_auto_keeps_the_fast_steps_before_the_run_is_throttled() -> None:
    window, found = choose(steps([9.0, *[1.0] * 24, *[2.0] * 25]), "auto")
    assert numbers(found) == list(range(17, 51))
    assert "dropped as warm-up" in (window.reason or "")


def test_auto_is_not_fooled_by_one_fast_step_during_a_long_warm_up() -> None:
    times: list[float | None] = [9.0, *[3.0] * 3, 1.0, *[3.0] * 8, *[1.0] * 20]
    assert numbers(choose(steps(times), "auto")[1])[0] == 14


def test_auto_says_when_the_warm_up_may_not_have_ended() -> None:
    window, found = choose(steps([10.0, 9.0, 8.0, 7.0, 3.0, 3.0, 3.0]), "auto")
    assert numbers(found) == [5, 6, 7]
    assert "the warm-up may not have ended" in (window.reason or "")


def test_auto_drops_at_most_a_hundred_steps_of_a_long_run() -> None:
    assert numbers(choose(steps([9.0, *[1.0] * 999]), "auto")[1]) == list(range(101, 1001))


def test_auto_excludes_profiled_steps() -> None:
    window, found = choose(steps([9.0, *[1.0] * 9]), "auto", {8, 9, 10})
    assert numbers(found) == [3, 4, 5, 6, 7]
    assert window.excluded == ()


@pytest.mark.parametrize("times", [[], [None], [2.0]])
def test_auto_on_almost_nothing(times: list[float | None]) -> None:
    window, found = choose(steps(times), "auto")
    assert len(found) == len([t for t in times if t])
    assert window.reason


@given(st.lists(st.one_of(st.none(), st.floats(0.01, 100)), max_size=60))
def test_auto_always_measures_about_half_or_more_and_a_contiguous_end(times: list[float | None]) -> None:
    usable = [k + 1 for k, t in enumerate(times) if t is not None]
    found = numbers(choose(steps(times), "auto")[1])
    assert found == usable[len(usable) - len(found) :]
    assert len(found) >= len(usable[1:]) / 2


@pytest.mark.parametrize(
    ("text", "plain"), [(" 35 - 44 ", "35-44"), ("LAST", "last"), ("Auto", "auto"), ("5-5", "5-5")]
)
def test_a_policy_has_one_plain_form(text: str, plain: str) -> None:
    assert check(text) == plain


@pytest.mark.parametrize("text", ["", "35", "35-", "a-b", "-5-10", "35:44", "first"])
def test_a_bad_policy_says_what_would_be_right(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"window '{text}': expected A-B such as 35-44")):
        check(text)


def test_a_backward_range_suggests_the_other_way_round() -> None:
    with pytest.raises(UsageError, match="did you mean 35-44"):
        check("44-35")
