"""Numbers that cannot be true are null in the records, with a line about each of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from llmbx.logs.lines import KEPT_DIGITS, LIMIT, Line, LineReader
from llmbx.logs.parser import LogParser
from llmbx.logs.printed import BEYOND, LARGEST_STEP, real, whole
from llmbx.logs.restarts import Attempts
from llmbx.model import Event, Step
from llmbx.plugins.log_parser import CheckedParser
from llmbx.plugins.manager import load
from llmbx.plugins.plausible import sensible
from llmbx.run.assess import gather
from llmbx.run.checks import run_checks
from llmbx.run.collect import collect, collect_file


class NaiveParser(LogParser):
    """A third party's parser: it converts what it finds, without a thought about hostile logs."""

    def feed(self, line: str) -> Iterable[Step]:
        word, _, rest = line.partition(" ")
        if word == "step":
            number, seconds, loss = rest.split()[:3]
            yield Step(number=int(number), time_s=float(seconds), loss=float(loss))


def test_a_number_of_any_length_is_converted() -> None:
    assert [whole("45"), whole("-7"), whole("0" * 30 + "5")] == [45, -7, 5]
    assert whole("9" * 60_000) == 10**18 and whole("-" + "9" * 60_000) == -(10**18)
    assert [real("5.5"), real("-1e3"), real("inf"), real("-Infinity")] == [5.5, -1000.0, math.inf, -math.inf]
    assert [real("1e400"), real("-1e400"), real("9" * 60_000)] == [BEYOND, -BEYOND, BEYOND]
    assert math.isnan(real("nan"))


@pytest.mark.parametrize(
    ("step", "kept", "odd"),
    [
        (Step(number=3, time_s=1.5, loss=math.nan), Step(number=3, time_s=1.5, loss=math.nan), []),
        (Step(number=10**18), None, ["a step with the number of 19 or more digits"]),
        (Step(number=-1, time_s=1.0), None, ["a step with the number -1"]),
        (Step(number=3, time_s=-0.5), Step(number=3), ["step 3: time_s -0.5"]),
        (Step(number=3, time_s=math.inf), Step(number=3), ["step 3: time_s inf"]),
        (Step(number=3, time_s=1e9), Step(number=3), ["step 3: time_s 1e+09"]),
        (Step(number=3, loss=BEYOND), Step(number=3), ["step 3: loss beyond every float"]),
        (Step(number=3, tflops_per_gpu=math.nan), Step(number=3), ["step 3: tflops_per_gpu nan"]),
        (Step(number=3, tokens=10**300), Step(number=3), ["step 3: tokens of 19 or more digits"]),
    ],
)
def test_what_cannot_be_true_is_null_and_named(step: Step, kept: Step | None, odd: list[str]) -> None:
    parser = CheckedParser(NaiveParser(), "plugin 'naive'")
    parser._parser = Fixed(step)
    assert repr(parser.feed("a line")) == repr([kept] if kept else [])
    assert parser.odd == odd and parser.odd_count == len(odd)


class Fixed(LogParser):
    """A parser that returns one record for every line."""

    def __init__(self, record: Step | Event) -> None:
        self.record = record

    def feed(self, line: str) -> list[Step | Event]:
        return [self.record]


def test_a_fact_that_cannot_be_true_is_left_out() -> None:
    event = Event(kind="fact", text="a line", facts={"ranks": 10**18, "loss": math.nan, "name": "x"}, rank=10**18)
    known, odd = sensible(event)
    assert isinstance(known, Event) and known.rank is None
    assert [*known.facts] == ["loss", "name"] and odd == ["ranks of 19 or more digits", "rank of 19 or more digits"]


def test_a_number_of_5000_digits_does_not_end_the_measuring_of_any_parser(tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    lines = ["step 1 0.5 3.0", f"step {'9' * 5000} 0.5 3.0", f"step 2 {'8' * 5000} 2.5", "step 3 0.5 2.0"]
    log.write_text("\n".join([*lines, "z" * (2 * LIMIT), ""]))
    found = collect_file(NaiveParser(), log)
    assert [(s.number, s.time_s, s.loss) for s in found.steps] == [(1, 0.5, 3.0), (2, None, 2.5), (3, 0.5, 2.0)]
    outcomes = run_checks(gather(None, found, None), load().judge.checks())
    texts = {o.check: o.text for o in outcomes if o.outcome == "warning"}
    assert texts["long-line"] == "1 line of the log is longer than 64 KiB and cut there"
    assert texts["odd-number"] == (
        "the log has numbers that cannot be true, which were left out: "
        "a step with the number of 19 or more digits, step 2: time_s 8.88889e+99"
    )


def test_numbers_that_a_float_can_have_keep_all_their_digits(tmp_path: Path) -> None:
    log = tmp_path / "log.out"
    log.write_text(f"a {'1' * 400} b {'2' * 1000} c {'3' * 1001}\n")
    assert LineReader().feed(log.read_bytes()) == [f"a {'1' * 400} b {'2' * 1000} c {'3' * KEPT_DIGITS}"]


def test_many_numbers_that_cannot_be_true_take_no_memory() -> None:
    parser = CheckedParser(Fixed(Step(number=1, time_s=-1.0)), "plugin 'x'")
    parser.read((Line(f"{k}") for k in range(1000)), lambda record: None)
    assert parser.odd_count == 1000 and len(parser.odd) == 8
    damage = collect(Fixed(Step(number=1, time_s=-1.0)), ["a"] * 20).damage
    assert damage.numbers == 20 and len(damage.examples) == 8


def test_a_step_number_that_cannot_be_true_is_no_restart() -> None:
    attempts = Attempts()
    assert [attempts.step(n, "line") for n in (1, 2, LARGEST_STEP + 1, 10**18, 3, 4)] == [[]] * 6
    assert attempts.step(1, "line") != []
