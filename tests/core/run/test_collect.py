"""Collecting records into a log: merging steps, selecting the last attempt, assigning events."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from llmbx.logs import source_files
from llmbx.logs.parser import LogParser, Record
from llmbx.logs.restarts import Attempts
from llmbx.model import Event, Step
from llmbx.run.collect import Collector, collect, collect_file


class Words(LogParser):
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


@pytest.mark.parametrize(
    "text",
    [
        "1 1.4\n2 1.5\n\n3 1.6\n9 1.5\n5 1.4\n6 1.5\n",  # 9 for 4
        "1 1.4\n2 1.5\n\n3 1.6\n4\r4 1.5\n1 1.4\n6 1.5\n",  # 1 for 5
    ],
)
def test_a_log_out_of_order_has_no_figure_and_names_its_lines(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.out"
    path.write_text(text.replace("4\r", "4 1.5\r"))
    log = collect_file(Words(), path)
    assert log.out_of_order == "lines 5 and 6", "as an editor counts them, with empty lines"
    assert log.steps == [Step(number=step.number) for step in log.steps]
    assert [event.kind for event in log.events] == ["finished"] and log.attempts == 1


def test_records_of_other_files_follow_the_steps_of_the_log_in_any_order() -> None:
    collector = Collector()
    for number in (10, 20, 30):
        collector.add(Step(number=number, time_s=2.0))
    for number in range(1, 31):
        collector.add(Step(number=number, loss=4.0), ordered=False)
    log = collector.log()
    assert [step.number for step in log.steps] == [*range(1, 31)] and log.out_of_order is None


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


def test_a_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "CHUNK", 7)
    path = tmp_path / "log.out"
    path.write_bytes(b"".join(b"%d 1.5\r\n" % k for k in range(1000)) + b"1000 1.5\n")
    log = collect_file(Words(), path)
    assert [(step.number, step.time_s) for step in log.steps] == [(k, 1.5) for k in range(1001)]


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
