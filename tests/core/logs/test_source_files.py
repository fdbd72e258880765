"""The sources of a run: which files are read, how they grow, and what is known about their lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from llmbx.logs import source_files
from llmbx.logs.lines import Line, as_lines, rank_in
from llmbx.logs.parser import LogParser, Record
from llmbx.logs.source_files import SourceFiles
from llmbx.logs.source_reader import SourceReader
from llmbx.model import Event, Measure, Source, SourceRecord, Step
from llmbx.plugins.log_parser import CheckedParser
from llmbx.run.collect import collect_source


class Objects(SourceReader):
    """Reads one JSON object per line, as a plugin does."""

    kind = "jsonl"
    is_text = True

    def __init__(self, source: str, rank: int | None) -> None:
        super().__init__(source, rank)
        self.at = 0

    def read(self, file: BinaryIO) -> Iterator[SourceRecord]:
        file.seek(self.at)
        for text in file:
            if not text.endswith(b"\n"):
                self.faults.incomplete = True
                return
            self.at += len(text)
            self.faults.incomplete = False
            values = json.loads(text)
            yield SourceRecord(source=self.source, rank=self.rank, step=values["step"], values=values)


class Reading(LogParser):
    """A parser that takes images of JSON lines and the words of rank logs."""

    measures = (Measure(name="images", unit="images", kind="count", over_ranks="sum"),)
    sources = (Source(glob="metrics-rank-*.jsonl", kind="jsonl"), Source(glob="logs/**/*.log", kind="lines"))

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def feed(self, line: Line) -> Iterable[Record]:
        self.lines.append(line)
        return []

    def feed_record(self, record: SourceRecord) -> Iterable[Record]:
        return [Step(number=record.step or 0, time_s=1.0, measures={"images": record.values["images"]})]


def checked_parser(parser: LogParser, reader: type[SourceReader] = Objects) -> CheckedParser:
    return CheckedParser(parser, "plugin 'toy'", lambda kind: reader)


def line(step: int, images: float) -> str:
    return json.dumps({"step": step, "images": images}) + "\n"


def origin(line: Line) -> tuple[str, float | None, str | None]:
    """Everything that a line knows, except for what follows from it."""
    return str(line), line.arrived, line.source


def all_steps(folder: Path) -> tuple[dict[int, dict[str, float]], list[str]]:
    """The measures by step, read from the folder, and the faults."""
    checked = checked_parser(Reading())
    sources, found = SourceFiles(folder, checked), list[Step | Event]()
    sources.read_all(found.append, {})
    for record in checked.close():
        found.append(record)
    steps = [record for record in found if isinstance(record, Step)]
    return {step.number: step.measures for step in steps if step.measures}, [*sources.faults(), *checked.faults]


def test_the_files_of_the_ranks_are_combined(tmp_path: Path) -> None:
    for rank in (0, 1, 10):
        (tmp_path / f"metrics-rank-{rank}.jsonl").write_text(line(1, 3.0) + line(2, rank))
    assert all_steps(tmp_path) == ({1: {"images": 9.0}, 2: {"images": 11.0}}, [])
    (tmp_path / "metrics-rank-11.jsonl").write_text(line(1, 3.0))
    found, faults = all_steps(tmp_path)
    assert found == {1: {"images": 12.0}} and faults[0].startswith("measure images: 1 step is without the value of a")


def test_files_outside_of_the_run_and_of_earlier_attempts_are_not_read(tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "metrics-rank-5.jsonl"
    (run / "attempts/0").mkdir(parents=True)
    outside.write_text(line(1, 100.0))
    (run / "metrics-rank-0.jsonl").write_text(line(1, 1.0))
    (run / "metrics-rank-5.jsonl").symlink_to(outside)
    (run / "attempts/0/metrics-rank-0.jsonl").write_text(line(1, 50.0))
    assert all_steps(run) == ({1: {"images": 1.0}}, [])
    (run / "metrics-rank-7.jsonl").mkdir()
    assert all_steps(run) == ({1: {"images": 1.0}}, []), "a folder"


def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics-rank-0.jsonl")
    assert all_steps(tmp_path) == ({}, ["metrics-rank-0.jsonl: cannot be read: it is a pipe"])


def test_a_growing_file_is_read_on_and_an_unfinished_record_waited_for(tmp_path: Path) -> None:
    path, checked = tmp_path / "metrics-rank-0.jsonl", checked_parser(Reading())
    sources, found = SourceFiles(tmp_path, checked), list[Step | Event]()
    assert not sources.advance(found.append)
    path.write_text(line(1, 1.0) + line(2, 2.0)[:9])
    assert sources.advance(found.append) and len(found) == 1
    with path.open("a") as file:
        file.write(line(2, 2.0)[9:])
    assert sources.advance(found.append) and len(found) == 2
    assert not sources.advance(found.append)
    sources.close(found.append)
    assert [step.measures for step in checked.close()] == [{"images": 1.0}, {"images": 2.0}]  # type: ignore[union-attr]


def test_a_file_that_has_not_grown_is_not_read_again(tmp_path: Path) -> None:
    """A reader may read it from its beginning each time."""
    reads = list[int]()

    class Counting(Objects):
        def read(self, file: BinaryIO) -> Iterator[SourceRecord]:
            reads.append(1)
            return super().read(file)

    path, sources = tmp_path / "metrics-rank-0.jsonl", SourceFiles(tmp_path, checked_parser(Reading(), Counting))
    for content in (line(1, 1.0), "", "", line(2, 2.0)):
        with path.open("a") as file:
            file.write(content)
        sources.advance(lambda record: None)
    assert len(reads) == 2


def test_lines_have_source_rank_stream_and_time(tmp_path: Path) -> None:
    (tmp_path / "logs/node-1").mkdir(parents=True)
    path = tmp_path / "logs/node-1/rank-3.stderr.log"
    path.write_text("first\n")
    parser = Reading()
    sources = SourceFiles(tmp_path, checked_parser(parser))
    sources.advance(lambda record: None)
    with path.open("a") as file:
        file.write("[1,7]<stdout>: second\n")
    sources.advance(lambda record: None, 5.0)
    first, second = parser.lines
    assert (first, first.source, first.rank, first.stream) == (
        "first",
        "logs/node-1/rank-3.stderr.log",
        3,
        "stderr",
    )
    assert first.arrived is None, "it was written at any time before the first read"
    assert (second.rank, second.stream) == (7, "stdout"), "the label of the line is closer than the name of the file"
    assert second.arrived == 5.0
    again = Reading()
    SourceFiles(tmp_path, checked_parser(again)).read_all(lambda record: None, sources.reads())
    assert [*map(origin, again.lines)] == [*map(origin, parser.lines)], "the whole file has the same times again"


def test_too_many_files_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "MOST_FILES", 2)
    for rank in range(3):
        (tmp_path / f"metrics-rank-{rank}.jsonl").write_text(line(1, 1.0))
    found, faults = all_steps(tmp_path)
    assert found == {1: {"images": 2.0}} and faults == ["sources metrics-rank-*.jsonl: only 2 files are read"]


@pytest.mark.parametrize(
    ("name", "rank"),
    [("metrics-rank-3.jsonl", 3), ("rank_12/x", 12), ("Rank7.log", 7), ("r3", None), ("a-rank-1/rank-2", 2),
     ("rank-" + "9" * 30, None)],
)  # fmt: skip
def test_the_rank_in_a_name(name: str, rank: int | None) -> None:
    assert rank_in(name) == rank


def test_one_file_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "metrics-rank-3.jsonl"
    path.write_text(line(1, 2.0) + line(2, 4.0)[:5])
    log = collect_source(checked_parser(Reading()), path, "jsonl")
    assert [(step.number, step.measures) for step in log.steps] == [(1, {"images": 2.0})]
    assert log.notes == ("metrics-rank-3.jsonl: the last record is incomplete and skipped",)


def test_a_reader_that_fails_is_reported_and_what_it_read_before_is_used(tmp_path: Path) -> None:
    (tmp_path / "metrics-rank-0.jsonl").write_text(line(1, 1.0) + "nonsense\n" + line(2, 2.0))
    measures, faults = all_steps(tmp_path)
    assert measures == {1: {"images": 1.0}}
    assert faults[0].startswith("metrics-rank-0.jsonl: its reader failed: JSONDecodeError: ")


def test_a_kind_that_no_plugin_reads_is_reported(tmp_path: Path) -> None:
    (tmp_path / "metrics-rank-0.jsonl").write_text(line(1, 1.0))
    sources = SourceFiles(tmp_path, CheckedParser(Reading(), "plugin 'toy'"))
    sources.read_all(lambda record: None, {})
    assert sources.faults() == ["metrics-rank-0.jsonl: no plugin reads files of the kind jsonl"]


def test_what_a_label_says() -> None:
    lines = [*as_lines(["3: a", "[0]<x>", "b"], 5.0, "log.out")]
    assert [(one.rank, one.stream, one.arrived) for one in lines] == [
        (3, None, 5.0),
        (None, None, 5.0),
        (None, None, 5.0),
    ]
