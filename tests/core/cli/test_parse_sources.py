"""`llmbx parse` of files of records: the format that declares them, or --log-format, and what they measure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

import llmbx.plugins.manager
from llmbx.cli.parse import command
from llmbx.errors import LlmbxError, UsageError
from llmbx.logs.parser import LogFormat, Record
from llmbx.model import Measure, Source, SourceRecord, Step
from llmbx.plugins.guards import guard_format

Parse = Callable[..., Result]


class Images:
    """Steps and images of JSON lines."""

    first_step = 1
    measures = (Measure(name="images", unit="images", kind="count"),)
    sources: tuple[Source, ...] = (Source(glob="logs/**/images-*.jsonl", kind="jsonl"),)

    def feed(self, line: str) -> Iterable[Record]:
        return []

    def feed_record(self, record: SourceRecord) -> Iterable[Record]:
        if record.step is not None:
            yield Step(number=record.step, time_s=2.0, measures={"images": record.values.get("images")})  # type: ignore[dict-item]

    def close(self) -> Iterable[Record]:
        return []


class AnyLines(Images):
    sources = (Source(glob="images-*.jsonl", kind="jsonl"), Source(glob="other.jsonl", kind="jsonl"))


class Plain:
    """A format without other files."""

    def feed(self, line: str) -> Iterable[Record]:
        if line.startswith("plain "):
            yield Step(number=int(line[6:]), time_s=1.0)

    def close(self) -> Iterable[Record]:
        return []


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Parse:
    """`parse(path, …, formats=…)`: the command with these formats."""

    def invoke(*arguments: object, formats: Iterable[type] = (Images, Plain)) -> Result:
        found = [
            guard_format(LogFormat(one.__name__, one.__name__, lambda text: text.count("plain "), one), "plugin 'x'")
            for one in formats
        ]
        plugins = SimpleNamespace(log_formats=lambda: found)
        monkeypatch.setattr(llmbx.plugins.manager, "load", lambda: plugins)
        done = CliRunner().invoke(command, [str(argument) for argument in arguments])
        if isinstance(done.exception, LlmbxError):
            raise done.exception
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return invoke


def write(path: Path, images: Iterable[object] = range(10, 30)) -> Path:
    path.write_text("".join(json.dumps({"step": n, "images": i}) + "\n" for n, i in enumerate(images, 1)))
    return path


def test_a_measure_that_a_file_has_twice_is_a_finding(parse: Parse, tmp_path: Path) -> None:
    path = write(tmp_path / "images-3.jsonl")
    with path.open("a") as stream:
        stream.write('{"step": 14, "images": 99}\n{"step": 15, "images": 24}\n')
    done = parse(path, "--window", "11-20", "--format", "json")
    (found,) = (each for each in json.loads(done.stdout)[0]["checks"] if each["outcome"] != "not possible")
    assert (found["check"], found["outcome"]) == ("measure-twice", "warning")
    assert found["text"] == "the log has images of step 14 twice, with different values; the last one is used"


def test_the_format_that_declares_such_files_reads_one(parse: Parse, tmp_path: Path) -> None:
    path = write(tmp_path / "images-3.jsonl")
    done = parse(path, "--window", "11-20", "--format", "json")
    (row,) = json.loads(done.stdout)
    assert (done.exit_code, row["format"], row["status"], row["steps_measured"]) == (0, "Images", "Success", 10)
    assert row["measures"]["images"]["per_second"] == sum(range(20, 30)) / 20
    assert "images: 12.25 images/s" in parse(path, "--window", "11-20").stdout
    (line,) = csv.DictReader(io.StringIO(parse(path, "--window", "11-20", "--format", "csv").stdout))
    assert (line["measures.images.per_second"], line["measures.images.steps"]) == ("12.25", "10")


def test_another_name_needs_the_format(parse: Parse, tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl")
    with pytest.raises(UsageError, match=r"mine.jsonl: no format declares such files: .*--log-format \(Images\)"):
        parse(path)
    (row,) = json.loads(parse(path, "--log-format", "Images", "--format", "json").stdout)
    assert row["steps_seen"] == 20
    with pytest.raises(UsageError, match=r"--log-format Image: no such format \(did you mean 'Images'\?\)"):
        parse(path, "--log-format", "Image")
    with pytest.raises(UsageError, match="a plugin's log parser declares them as `sources`"):
        parse(path, formats=(Plain,))


def test_several_formats_for_one_file_need_a_choice(parse: Parse, tmp_path: Path) -> None:
    path = write(tmp_path / "images-1.jsonl")
    with pytest.raises(UsageError, match=r"several formats read such files: .*--log-format \(Images, AnyLines\)"):
        parse(path, formats=(Images, AnyLines))
    (row,) = json.loads(parse(path, "--log-format", "AnyLines", "--format", "json", formats=(Images, AnyLines)).stdout)
    assert row["format"] == "AnyLines"


def test_logs_beside_such_files_are_recognized_as_before(parse: Parse, tmp_path: Path) -> None:
    log = tmp_path / "log-a.txt"
    log.write_text("plain 1\nplain 2\n")
    rows = json.loads(
        parse(log, write(tmp_path / "images-1.jsonl"), "--format", "json", formats=(Plain, Images)).stdout
    )
    assert [(row["format"], row["steps_seen"]) for row in rows] == [("Plain", 2), ("Images", 20)]


def test_what_cannot_be_read_is_a_warning(parse: Parse, tmp_path: Path) -> None:
    path = write(tmp_path / "images-1.jsonl", [*range(19), True])
    with path.open("a") as file:
        file.write('no json\n{"step": 21')
    done = parse(path, "--window", "11-20")
    assert done.exit_code == 0
    for said in (
        "images-1.jsonl: 1 record is not valid and skipped (first: line 21 is not a JSON object)",
        "images-1.jsonl: the last record is incomplete and skipped",
        "plugin 'x': measure 'images' of step 20 is True, expected a number from 0 to 1e+15; the value is left out",
        "only 9 of the 10 measured steps have the measure images",
    ):
        assert said in done.stderr
