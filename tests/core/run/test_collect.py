"""Collecting records into a log: merging steps, selecting the last attempt, assigning events."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from llmbx.logs.parser import Record
from llmbx.logs.restarts import Attempts
from llmbx.model import Event, Step
from llmbx.run.collect import collect, collect_file
from llmbx.run.collector import Collector, Log


class Words:
    """A log parser for the tests: `N TIME`, `N loss L`, `start`, `boom`."""

    def __init__(self) -> None:
        self.attempts = Attempts()

    def feed(self, line: str) -> Iterable[Record]:
        first, *rest = line.split()
        if first == "start":
            return self.attempts.start(line)
        if first == "boom":
            return [Event(kind="exception", text=line, fatal=True)]
        found = self.attempts.step(int(first), line)
        if rest[0] == "loss":
            return [*found, Step(number=int(first), loss=float(rest[1]), attempt=self.attempts.current)]
        return [*found, Step(number=int(first), time_s=float(rest[0]), attempt=self.attempts.current)]

    def close(self) -> Iterable[Record]:
        return [Event(kind="finished", text="end")]


def test_a_later_record_completes_a_step_in_any_order() -> None:
    log = collect(Words(), ["2 1.5", "1 1.4", "2 loss nan", "1 loss 3", "3 1.6"])
    assert [(s.number, s.time_s) for s in log.steps] == [(1, 1.4), (2, 1.5), (3, 1.6)]
    assert log.steps[0].loss == 3 and math.isnan(log.steps[1].loss or 0.0) and log.steps[2].loss is None
    assert [event.kind for event in log.events] == ["finished"]
    assert log.attempts == 1


def test_only_the_last_attempt_counts() -> None:
    log = collect(Words(), ["start", "1 9", "2 9", "3 9", "boom", "start", "start", "1 1.4", "2 1.5"])
    assert [(s.number, s.time_s) for s in log.steps] == [(1, 1.4), (2, 1.5)]
    assert log.attempts == 2
    assert [e.kind for e in log.earlier] == ["exception"]
    assert [e.kind for e in log.events] == ["restarted", "finished"]


def test_numbers_that_fall_back_are_a_restart() -> None:
    log = collect(Words(), ["38 9", "39 9", "40 9", "20 1", "21 2"])
    assert [(s.number, s.time_s) for s in log.steps] == [(20, 1.0), (21, 2.0)]
    assert log.attempts == 2


DAMAGED: dict[str, tuple[list[int], list[int]]] = {
    "too small": ([34, 35, 36, 3, 38, 39], [34, 35, 36, 38, 39]),
    "too large": ([34, 35, 36, 377, 38, 39], [34, 35, 36, 38, 39]),
    "every tenth step is printed": ([10, 20, 30, 4, 50, 60], [10, 20, 30, 50, 60]),
    "beside the same step of another process": ([33, 33, 34, 34, 35, 35, 3, 36, 36, 37], [33, 34, 35, 36, 37]),
    "two of them": ([1, 2, 3, 4, 5, 6, 1, 8, 9, 10, 4, 12], [1, 2, 3, 4, 5, 6, 8, 9, 10, 12]),
    "the first after a restart": ([1, 2, 3, 1, 2, 3, 4, 5, 1, 7, 8], [1, 2, 3, 4, 5, 7, 8]),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_step_number_is_no_restart(case: str) -> None:
    numbers, kept = DAMAGED[case]
    log = collect(Words(), [f"{number} 1.5" for number in numbers])
    assert [step.number for step in log.steps] == kept and {step.attempt for step in log.steps} == {log.attempts - 1}
    assert log.attempts == (2 if "restart" in case else 1) and log.order == "printed"
    assert log.damage.numbers == (2 if case == "two of them" else 1)
    assert "after step" in log.damage.examples[0]
    kinds = [event.kind for event in log.events]
    assert kinds == (["restarted", "finished"] if "restart" in case else ["finished"])


def test_the_last_number_is_damaged_if_the_samples_go_on() -> None:
    def read(last_samples: int) -> Log:
        collector = Collector()
        for number in range(47, 50):
            collector.add(Step(number=number, time_s=2.0, consumed_samples=64 * number))
        collector.add(Event(kind="restarted", text="5", facts={"attempt": 1, "fell_to": 5}))
        collector.add(Step(number=5, time_s=2.0, consumed_samples=last_samples, attempt=1))
        return collector.log()

    assert [step.number for step in read(64 * 50).steps] == [47, 48, 49] and read(64 * 50).attempts == 1
    assert [step.number for step in read(64 * 5).steps] == [5] and read(64 * 5).attempts == 2


@pytest.mark.parametrize(
    "numbers",
    [
        [38, 39, 40, 20, 21, 22],
        [10, 20, 30, 40, 30, 40, 50],
        [5, 6, 7, 1],
        [1, 1, 1, 5, 1, 2],
        [10, 11, 14, 12, 13, 14, 15],
        [36, 37, 20, 22, 24],
    ],
)
def test_numbers_that_go_on_from_where_they_fell_are_a_restart(numbers: list[int]) -> None:
    log = collect(Words(), [f"{number} 1.5" for number in numbers])
    assert (log.attempts, log.damage.numbers) == (2, 0)


def test_what_stands_between_a_damaged_number_and_the_next_is_kept() -> None:
    log = collect(Words(), ["1 2", "2 2", "3 2", "1 2", "boom", "1 loss 4", "5 2"])
    assert [step.number for step in log.steps] == [1, 2, 3, 5]
    assert [event.kind for event in log.events] == ["exception", "finished"] and log.steps[0].loss is None


def test_another_rank_that_prints_the_same_steps_is_no_restart() -> None:
    log = collect(Words(), ["1 1", "1 1.1", "2 2", "1 loss 4", "2 2", "3 3"])
    assert [s.number for s in log.steps] == [1, 2, 3]
    assert log.attempts == 1


def test_a_resumed_run_begins_where_the_first_one_died() -> None:
    log = collect(Words(), ["40 9", "41 9", "start", "41 1", "42 2"])
    assert [(s.number, s.time_s) for s in log.steps] == [(41, 1.0), (42, 2.0)]


def test_a_skipped_step_stays_skipped() -> None:
    collector = Collector()
    collector.add(Step(number=1, skipped=True))
    collector.add(Step(number=1, time_s=2.0))
    assert collector.log().steps == [Step(number=1, skipped=True, time_s=2.0)]


def test_the_log_is_available_at_any_time() -> None:
    collector = Collector()
    assert collector.log().steps == []
    collector.add(Step(number=1, time_s=2.0))
    early = collector.log()
    collector.add(Step(number=2, time_s=2.0))
    assert [len(early.steps), len(collector.log().steps)] == [1, 2]


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    log = collect_file(Words(), tmp_path / "log.out")
    assert (log.steps, log.events) == ([], [])
    (tmp_path / "log.out").write_text("1 2.5\n2 2.5\n")
    assert [step.number for step in collect_file(Words(), tmp_path / "log.out").steps] == [1, 2]


def test_a_parser_may_count_attempts_without_restart_events() -> None:
    collector = Collector()
    for step in (Step(number=1), Step(number=2), Step(number=1, attempt=1), Step(number=2, time_s=9.0)):
        collector.add(step)
    assert (collector.log().steps, collector.log().attempts) == ([Step(number=1, attempt=1)], 2)


def test_a_path_with_too_long_a_name_is_an_empty_log(tmp_path: Path) -> None:
    assert collect_file(Words(), tmp_path / ("x" * 300)).steps == []
