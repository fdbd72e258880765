"""Declared measures and sources are validated; values that are wrong are left out with a line that names both."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from llmbx.errors import PluginError
from llmbx.logs.lines import Line
from llmbx.logs.parser import LogParser, Record
from llmbx.model import Measure, Source, SourceRecord, Step
from llmbx.plugins.log_parser import CheckedParser
from llmbx.run.collect import collect

IMAGES = Measure(name="images", unit="images", kind="count")
WAIT = Measure(name="wait", unit="s", kind="time")


class Measuring(LogParser):
    """A parser whose steps have the measures that a test wants."""

    def __init__(self, *steps: dict[str, Any], measures: Any = (IMAGES, WAIT), sources: Any = ()) -> None:
        self.measures, self.sources = measures, sources
        self._steps = steps

    def feed(self, line: str) -> Iterable[Record]:
        return [Step(number=n, time_s=1.0, measures=found) for n, found in enumerate(self._steps, 1)]


def read(*steps: dict[str, Any]) -> tuple[list[dict[str, float]], tuple[str, ...]]:
    log = collect(CheckedParser(Measuring(*steps), "plugin 'toy'"), ["a line"])
    return [step.measures for step in log.steps], log.notes


def test_declared_finite_values_pass() -> None:
    assert read({"images": 3, "wait": 0.5}, {}, {"wait": 0.0}) == (
        [{"images": 3.0, "wait": 0.5}, {}, {"wait": 0.0}], (),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "True"), (math.nan, "nan"), (math.inf, "inf"), (-1, "-1"), (1e16, "1e+16"), ("8", "8"), (None, "None"),
        ([1], "[1]"), (10**5000, "an integer of thousands of digits"), ("x\n" * 99, "x?x?"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)  # fmt: skip
def test_a_value_that_cannot_be_true_is_left_out_and_named(value: object, shown: str) -> None:
    found, notes = read({"images": value, "wait": 1.0}, {"images": 5.0})
    assert found == [{"wait": 1.0}, {"images": 5.0}]
    (note,) = notes
    assert note.startswith(f"plugin 'toy': measure 'images' of step 1 is {shown}") and "\n" not in note
    assert note.endswith("expected a number from 0 to 1e+15; the value is left out")


def test_a_name_that_is_not_declared_is_left_out_once_with_a_suggestion() -> None:
    found, notes = read({"imges": 1.0}, {"imges": 2.0}, {"images": 1.0})
    assert found == [{}, {}, {"images": 1.0}]
    assert notes == (
        "plugin 'toy': measure 'imges' is not declared by its log parser (did you mean 'images'?); its values are "
        "left out (and 1 more value)",
    )


def test_the_notes_are_bounded() -> None:
    _, notes = read(*({f"name{n}": 1.0} for n in range(500)))
    assert len(notes) == 32


@pytest.mark.parametrize(
    ("measures", "says"),
    [
        (3, "measures of its log parser: expected a tuple"),
        (("images",), "measures of its log parser contains a str, expected Measure records"),
        ((IMAGES, IMAGES), "'images' is declared twice"),
        ((Measure(name="Images", unit="images", kind="count"),), "name: "),
        ((Measure(name="images", unit="two words", kind="count"),), "unit: "),
        ((Measure(name="images", unit="images", kind="sum"),), "kind: "),  # type: ignore[arg-type]
        ((Measure(name="wait", unit="ms", kind="time"),), "'wait' is a time in ms, expected the unit s"),
    ],
)
def test_an_invalid_declaration_names_the_plugin(measures: Any, says: str) -> None:
    with pytest.raises(PluginError) as error:
        CheckedParser(Measuring(measures=measures), "plugin 'toy'")
    assert str(error.value).startswith("plugin 'toy': ") and says in str(error.value)


@pytest.mark.parametrize("glob", ["/etc/*", "../*.jsonl", "a/../../b", "x**/y", ""])
def test_a_source_stays_in_the_folder_of_the_run(glob: str) -> None:
    with pytest.raises(PluginError, match="plugin 'toy': sources of its log parser"):
        CheckedParser(Measuring(sources=(Source(glob=glob, kind="jsonl"),)), "plugin 'toy'")


class Lines(Measuring):
    """A parser that uses what is known about lines."""

    def feed(self, line: Line) -> Iterable[Record]:
        number = int(line.rpartition(" ")[2])
        return [Step(number=number, time_s=line.arrived, measures={"images": 1.0 + (line.rank or 0)})]


def test_a_parser_gets_lines_also_where_only_the_text_is_known() -> None:
    checked = CheckedParser(Lines(), "plugin 'toy'")
    found: list[Any] = checked.feed("7")
    checked.read([Line("2: 8", arrived=1e6)], found.append)
    assert [(s.number, s.time_s, s.measures) for s in found] == [(7, None, {"images": 1.0}), (8, 1e6, {"images": 3.0})]


def test_the_labels_of_lines_name_the_ranks_whose_values_are_combined() -> None:
    checked = CheckedParser(Lines(measures=(IMAGES.replace(over_ranks="sum"),)), "plugin 'toy'")
    found: list[Any] = [*checked.feed("0: 7"), *checked.feed("2: 7"), *checked.close()]
    assert [step.measures for step in found] == [{}, {}, {"images": 4.0}]


def test_records_need_a_method_for_them() -> None:
    with pytest.raises(PluginError, match=r"plugin 'toy': .* no method feed_record"):
        CheckedParser(Measuring(), "plugin 'toy'").feed_record(SourceRecord(source="f"))
    with pytest.raises(PluginError, match=r"plugin 'toy': .* no method feed_record"):
        CheckedParser(Measuring(sources=(Source(glob="*.jsonl", kind="jsonl"),)), "plugin 'toy'")
    CheckedParser(Measuring(sources=(Source(glob="*.log", kind="lines"),)), "plugin 'toy'")


def test_later_records_of_a_step_add_measures() -> None:
    class Twice(Measuring):
        def feed(self, line: str) -> Iterable[Record]:
            return [Step(number=1, measures={"images": 1.0}), Step(number=1, time_s=1.0, measures={"wait": 0.5})]

    log = collect(CheckedParser(Twice(), "x"), ["a line"])
    assert [step.measures for step in log.steps] == [{"images": 1.0, "wait": 0.5}]
