"""`llmbx parse`: figures, tables, JSON, CSV, statuses, exit codes, files of records. The formats are the tests' own."""

from __future__ import annotations

import bz2
import csv
import gzip
import importlib.metadata
import io
import json
import lzma
import os
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest
from click.testing import CliRunner, Result

import llmbx.plugins.manager
from llmbx import hookimpl, hookspecs
from llmbx.cli import log_reading
from llmbx.errors import InfraError, LlmbxError, UsageError
from llmbx.logs.parser import LogFormat, LogParser, Record
from llmbx.measure.figures import measure
from llmbx.model import Event, JobStatus, Measure, RunSpec, Source, SourceRecord, Step
from llmbx.model.flops import Flops
from llmbx.plugins.guards import guard_format
from llmbx.plugins.manager import Plugins, load
from llmbx.record.folder import new_record, read_run, write_record, write_result, write_steps
from llmbx.run.result import build_result
from llmbx_parse.find import find_logs
from llmbx_parse.rows import parse_logs
from llmbx_parse.table import as_json, table
from llmbx_parse.verb import command

Parse = Callable[..., Result]

TIMES = [30.0, 8.0, *[5.0 + 0.001 * (k * 7 % 5) for k in range(48)]]


class Toy(LogParser):
    """`toy step N: S s, T TFLOPS, loss L` and `toy died: WHY`."""

    def feed(self, line: str) -> Iterable[Record]:
        if match := re.match(r"toy step (\d+): ([\d.]+) s(?:, ([\d.]+) TFLOPS)?(?:, loss (\S+))?$", line):
            number, time, tflops, loss = match.groups()
            yield Step(
                number=int(number),
                time_s=float(time),
                tflops_per_gpu=float(tflops) if tflops else None,
                tflops_resolution=0.1,
                loss=float(loss) if loss else None,
            )
        elif line.startswith("toy died: "):
            yield Event(kind="exception", text=line[10:], fatal=True)


def sniff(text: str) -> int:
    return text.count("toy ")


FORMATS = [
    LogFormat("toy", "Toy", sniff, Toy, lambda name: "last" if "short" in name else "35-44"),
    LogFormat("toy-ms", "Toy in ms", lambda text: 2 * text.count("unit ms"), Toy, lambda name: "35-44", unit="ms"),
]


def write(path: Path, times: Sequence[float] = TIMES, extra: str = "", more: str = ", {k} TFLOPS") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"toy step {k}: {t} s" + more.format(k=100 + k / 10) for k, t in enumerate(times, 1)]
    path.write_text("\n".join([extra, *lines]) + "\n")
    return path


def rows(*paths: Path, window: str | None = None, plugins: Plugins | None = None) -> list[dict[str, Any]]:
    """The rows as JSON has them."""
    return [as_json(row) for row in parse_logs(find_logs(paths), FORMATS, plugins or load(), window)]


def printed(*paths: Path, plugins: Plugins | None = None, full_names: bool = False) -> str:
    """The table."""
    return table(parse_logs(find_logs(paths), FORMATS, plugins or load()), full_names)


def test_mean_and_sample_deviation_over_the_formats_window(tmp_path: Path) -> None:
    (row,) = rows(write(tmp_path / "log-a.out"))
    inside, figures = TIMES[34:44], [100 + k / 10 for k in range(35, 45)]
    assert (row["status"], row["window"], row["window_policy"], row["steps_measured"], row["steps_seen"]) == (
        "Success",
        "35-44",
        "35-44",
        10,
        50,
    )
    assert row["step_time_mean_s"] == pytest.approx(statistics.fmean(inside))
    assert row["step_time_std_s"] == pytest.approx(statistics.stdev(inside))
    assert row["tflops_per_gpu_mean"] == pytest.approx(statistics.fmean(figures))
    assert row["tflops_per_gpu_std"] == pytest.approx(statistics.stdev(figures))
    assert (row["tflops_source"], row["tokens_per_s"], row["mfu"]) == ("log", None, None)


def test_a_log_that_does_not_reach_its_window_has_failed(tmp_path: Path) -> None:
    log = write(tmp_path / "log-a.out", TIMES[:12])
    log.write_text(log.read_text() + "toy died: ValueError: no\n")
    (row,) = rows(log)
    assert (row["status"], row["window"], row["steps_measured"]) == ("Failed (12 iterations)", "35-44", 0)
    assert (row["step_time_mean_s"], row["step_time_std_s"], row["tflops_per_gpu_mean"]) == (None, None, None)
    assert row["cause"] == "ValueError: no"


def test_the_only_step_of_an_unfinished_training_is_no_success(tmp_path: Path) -> None:
    plugins = load()
    numbers = "iteration        {0}/      50 | elapsed time per iteration (ms): 9400.1 | lm loss: 1.1E+01 |"
    line = f" [2026-11-26 10:00:0{{0}}] {numbers}\n"
    for steps, status in ((1, "Failed (ended with step 1 of 50)"), (2, "Success")):
        path = tmp_path / f"log-{steps}.out"
        path.write_text("".join(line.format(number) for number in range(1, steps + 1)))
        (row,) = parse_logs(find_logs([path]), plugins.log_formats(), plugins, "auto")
        assert row.status == status


def test_the_window_can_be_chosen(tmp_path: Path) -> None:
    log = write(tmp_path / "log-a.out", TIMES[:12])
    assert rows(log, window="3-12")[0]["steps_measured"] == 10
    last = rows(log, window="last")[0]
    assert (last["window"], last["step_time_mean_s"], last["step_time_std_s"]) == ("12-12", TIMES[11], None)
    auto = rows(log, window="auto")[0]
    assert (auto["window"], auto["window_policy"]) == ("5-12", "auto")


def test_the_steady_state_stands_beside_the_recipes_window(tmp_path: Path) -> None:
    log = write(tmp_path / "log-short.out", TIMES)
    (row,) = rows(log)
    assert (row["window"], row["step_time_mean_s"]) == ("50-50", TIMES[-1])
    assert row["steady"] is not None
    assert (row["steady"]["window"], row["steady"]["steps_measured"]) == ("17-50", 34)
    assert row["steady"]["step_time_mean_s"] == pytest.approx(statistics.fmean(TIMES[16:]))
    assert "dropped as warm-up" in str(row["steady"]["window_reason"])
    parts = printed(log).split("\n\n")
    assert ["(last iteration)" in parts[0], "(steady state)" in parts[1]] == [True, True]
    assert rows(log, window="35-44")[0]["steady"] is None
    assert rows(write(tmp_path / "log-b.out", TIMES[:12]))[0]["steady"] is None


def test_tokens_a_second_come_from_the_logs_own_count(tmp_path: Path) -> None:
    class Counting(Toy):
        def feed(self, line: str) -> Iterable[Record]:
            return [r.replace(tokens=1000) if isinstance(r, Step) and r.number != 40 else r for r in super().feed(line)]

    formats = [LogFormat("counting", "Counting", sniff, Counting, lambda name: "last")]
    log = write(tmp_path / "log-a.out", TIMES)

    def rate(window: str | None) -> float | None:
        return parse_logs(find_logs([log]), formats, load(), window)[0].figures.tokens_per_s

    assert rate(None) == pytest.approx(1000 / TIMES[-1])
    assert rate("35-44") is None
    assert rate("41-42") == pytest.approx(2000 / sum(TIMES[40:42]))


def test_a_figure_that_the_log_rounds_away_is_unknown(tmp_path: Path) -> None:
    (row,) = rows(write(tmp_path / "log-a.out", more=", 0.1 TFLOPS"))
    assert (row["status"], row["tflops_per_gpu_mean"], row["tflops_source"]) == ("Success", None, None)


def test_a_run_with_a_loss_that_is_not_finite_has_failed(tmp_path: Path) -> None:
    (row,) = rows(write(tmp_path / "log-a.out", more=", 100.0 TFLOPS, loss nan"))
    assert row["status"] == "Failed (the loss is not finite at step 1)"


def test_files_without_a_format(tmp_path: Path) -> None:
    for name in ("log-crashed.out", "slurm-1.out", "named.txt"):
        (tmp_path / name).write_text("nothing to see\n")
    assert [(r["experiment"], r["format"], r["status"]) for r in rows(tmp_path)] == [
        ("crashed", None, "Failed (0 iterations)")
    ]
    (named,) = rows(tmp_path / "named.txt")
    assert named["status"] == "Failed (0 iterations)"
    assert named["unread"] == "no log format recognizes a line of the file (known: toy, toy-ms)"


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("log-a.out", b"", "the file is empty"),
        ("a.gz", gzip.compress(b"step 1", mtime=0), "the file is compressed (gzip): decompress it first, gunzip -k "),
        ("a.xz", lzma.compress(b"step 1"), "the file is compressed (xz): decompress it first, unxz -k "),
        ("a.bz2", bz2.compress(b"step 1"), "the file is compressed (bzip2): decompress it first, bunzip2 -k "),
        ("a.txt", "step 1".encode("utf-16"), "the file is UTF-16 text: convert it first, iconv -f UTF-16 -t UTF-8 "),
    ],
    ids=("empty", "gzip", "xz", "bzip2", "UTF-16"),
)
def test_a_file_that_is_no_text_of_a_log_has_its_reason(tmp_path: Path, name: str, content: bytes, cause: str) -> None:
    (tmp_path / name).write_bytes(content)
    (row,) = rows(tmp_path / name)
    assert row["unread"] is not None and row["unread"].removesuffix(str(tmp_path / name)) == cause


def test_a_log_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(tmp_path / "log-a.out")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InfraError, match=r"log-a\.out: cannot be read: Permission denied"):
        rows(log)


def test_the_table_has_one_part_for_each_unit_and_window(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    write(tmp_path / "a/log-team.seconds_with_a_rather_long_name_4711_0.out")
    write(tmp_path / "b/log-died.out", TIMES[:12])
    write(tmp_path / "c/log-short.out", TIMES[:12], more="")
    write(
        tmp_path / "d/log-milliseconds.out",
        [5.741 + k / 1000 for k in range(50)],
        "unit ms toy unit ms" + " unit ms" * 60,
    )
    golden("parse_table.txt", printed(tmp_path))
    long = printed(tmp_path, full_names=True).replace(f"{tmp_path}/", "")
    assert re.search(r"^a/log-team\.seconds_with_a_rather_long_name_4711_0\.out +Success ", long, re.MULTILINE)


@pytest.fixture
def run(tmp_path: Path, make_spec: Callable[..., RunSpec]) -> Path:
    """A run folder of llmbx: 20 steps of 2 s, window 11-18, 8 samples of 128 tokens a step on 2 GPUs."""
    spec = make_spec()
    folder = tmp_path / "experiments" / spec.experiment / f"{spec.experiment}_1" / spec.experiment
    write(folder / f"log-{spec.experiment}.out", [2.0] * 20, more=", 0.0 TFLOPS")
    write_record(folder, new_record(f"{spec.experiment}_1", spec, id="x1", command=("llmbx", "run")))
    return folder


class Framework:
    """The plugin of the run, as far as it is asked."""

    @hookimpl
    def parse_log(self, spec: RunSpec | None) -> list[LogFormat]:
        return FORMATS[:1]

    @hookimpl
    def compute_flops(self, spec: RunSpec) -> Flops:
        return Flops(full=1e15, causal=5e14, formula="f")

    @hookimpl
    def register_workloads(self) -> list[Any]:
        return []


@pytest.fixture
def plugins() -> Plugins:
    registry = pluggy.PluginManager("llmbx")
    registry.add_hookspecs(hookspecs)
    registry.register(Framework(), name="toy")
    return Plugins(registry, [])


def test_a_run_of_llmbx_is_measured_by_its_record(run: Path, plugins: Plugins) -> None:
    (row,) = rows(run, plugins=plugins)
    assert (row["status"], row["window"], row["steps_measured"]) == ("Success", "11-18", 8)
    assert row["tokens_per_s"] == pytest.approx(8 * 128 / 2.0)
    assert row["tflops_per_gpu_mean"] == pytest.approx(8 * 1e15 / 2.0 / 2 / 1e12)
    assert row["tflops_source"] == "recomputed"
    text = printed(run, plugins=plugins)
    assert "2000.00*" in text and "* recomputed from step time" in text
    (other,) = rows(run, window="last", plugins=plugins)
    assert (other["window"], other["steps_measured"]) == ("20-20", 1)


def test_a_finished_run_is_measured_from_its_stored_steps_if_these_are_whole(run: Path, plugins: Plugins) -> None:
    record = read_run(run).record
    steps = [Step(number=number, time_s=3.0) for number in range(1, 21)]
    ended = JobStatus(state="ended", exit_code=0)
    write_result(run, build_result(record, ended, measure(record.spec, steps)))
    write_steps(run, steps)
    (row,) = rows(run, plugins=plugins)
    assert (row["step_time_mean_s"], row["steps_seen"]) == (3.0, 20)
    write_steps(run, steps[:4])
    (row,) = rows(run, plugins=plugins)
    assert (row["step_time_mean_s"], row["steps_seen"]) == (2.0, 20), "those of the log"
    assert "steps.jsonl has 4 of 20 steps; the log is measured, if it is there" in row["notes"]


def test_a_record_that_cannot_be_read_leaves_the_log_alone(run: Path, plugins: Plugins) -> None:
    (run / "run.json").write_text("{")
    (row,) = rows(run, window="last", plugins=plugins)
    assert (row["status"], row["tokens_per_s"]) == ("Success", None)


def test_a_run_that_has_not_ended_is_running_and_one_without_times_says_so(
    run: Path, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status(state: str) -> object:
        monkeypatch.setattr(log_reading, "current_status", lambda run, plugins: (state, None))
        (row,) = rows(run, plugins=plugins)
        return row["status"]

    log = next(run.glob("log-*.out"))
    write(log, [2.0] * 5, more=", 0.0 TFLOPS")
    assert (status("running"), status("failed")) == ("Running (5 iterations)", "Failed (5 iterations)")
    write(log, [2.0] * 20, more=", 0.0 TFLOPS")
    assert status("running") == "Success"


def test_a_window_that_the_log_does_not_reach_has_no_figure(run: Path, plugins: Plugins) -> None:
    (row,) = [as_json(row) for row in parse_logs(find_logs([run]), FORMATS, plugins, "11-21", intervals=True)]
    assert row["window_reason"] == "the log ends at step 20"
    figures = ("step_time_mean_s", "step_time_cv", "step_time_interval_s", "tflops_per_gpu_mean", "tokens_per_s")
    assert [row[name] for name in figures] == [None] * 5


class Images(LogParser):
    """Steps and images of JSON lines."""

    first_step = 1
    measures = (Measure(name="images", unit="images", kind="count"),)
    sources: tuple[Source, ...] = (Source(glob="logs/**/images-*.jsonl", kind="jsonl"),)

    def feed(self, line: str) -> Iterable[Record]:
        return []

    def feed_record(self, record: SourceRecord) -> Iterable[Record]:
        if record.step is not None:
            yield Step(number=record.step, time_s=2.0, measures={"images": record.values.get("images")})  # type: ignore[dict-item]


class AnyLines(Images):
    sources = (Source(glob="images-*.jsonl", kind="jsonl"), Source(glob="other.jsonl", kind="jsonl"))


class Plain(LogParser):
    """A format without other files."""

    def feed(self, line: str) -> Iterable[Record]:
        if line.startswith("plain "):
            yield Step(number=int(line[6:]), time_s=1.0)


def as_format(parser: type) -> LogFormat:
    format_ = LogFormat(parser.__name__, parser.__name__, lambda text: text.count("plain "), parser)
    return guard_format(format_, "plugin 'x'", load().source_reader)


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Parse:
    """`parse(path, …, formats=…)`: the command with the log formats of these parsers beside `FORMATS`."""

    def invoke(*arguments: object, formats: Iterable[type] = (Images, Plain)) -> Result:
        known = [*FORMATS, *map(as_format, formats)]
        plugins = SimpleNamespace(
            log_formats=lambda: known,
            source_readers=load().source_readers,
            frameworks=list,
            framework=load().framework,
            judge=load().judge,
            checks=load().checks,
        )
        monkeypatch.setattr(llmbx.plugins.manager, "load", lambda: plugins)
        done = CliRunner().invoke(command, [str(argument) for argument in arguments])
        if isinstance(done.exception, LlmbxError):
            raise done.exception
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return invoke


def test_json_is_a_list_of_objects_with_null_for_unknown(parse: Parse, tmp_path: Path) -> None:
    done = parse(write(tmp_path / "log-a.out", more=""), write(tmp_path / "log-b.out", TIMES[:3]), "--format", "json")
    assert done.exit_code == 0
    good, bad = json.loads(done.stdout)
    expected = {
        "path": str(tmp_path / "log-a.out"), "format": "toy", "status": "Success", "window": "35-44",
        "steps_measured": 10, "tflops_per_gpu_mean": None, "tflops_per_gpu_std": None, "tokens_per_s": None,
        "mfu": None,
    }  # fmt: skip
    assert {name: good[name] for name in expected} == expected
    assert good["step_time_mean_s"] == pytest.approx(statistics.fmean(TIMES[34:44]))
    assert good["step_time_std_s"] == pytest.approx(statistics.stdev(TIMES[34:44]))
    mean, cv = statistics.fmean(TIMES[34:44]), statistics.stdev(TIMES[34:44]) / statistics.fmean(TIMES[34:44])
    assert good["step_time_cv"] == pytest.approx(cv)
    low, high = good["step_time_interval_s"]
    assert low < mean < high and high - low < 4 * cv * mean
    assert (bad["status"], bad["step_time_mean_s"]) == ("Failed (3 iterations)", None)


def test_csv_has_a_header_and_empty_fields(parse: Parse, tmp_path: Path) -> None:
    done = parse(write(tmp_path / "log-a.out"), write(tmp_path / "log-b.out", TIMES[:3]), "--format", "csv")
    good, bad = csv.DictReader(io.StringIO(done.stdout))
    assert float(good["step_time_mean_s"]) == pytest.approx(statistics.fmean(TIMES[34:44]))
    assert (bad["status"], bad["step_time_mean_s"], bad["tflops_per_gpu_std"]) == ("Failed (3 iterations)", "", "")


def test_nothing_valid_is_exit_1(parse: Parse, tmp_path: Path) -> None:
    log = write(tmp_path / "log-b.out", TIMES[:3])
    log.write_text(log.read_text() + "toy died: ValueError: no\n")
    done = parse(log)
    assert done.exit_code == 1 and "Failed (3 iterations)" in done.stdout, "a pipe has room"
    assert "llmbx: b: ValueError: no" in done.stderr
    assert "none of 1 logs contains a valid measurement" in done.stderr
    (tmp_path / "empty").mkdir()
    none = parse(tmp_path / "empty", "--format", "json")
    assert (none.exit_code, json.loads(none.stdout)) == (1, [])
    assert f"no training log found in {tmp_path / 'empty'}" in none.stderr


def test_a_terminal_has_narrower_columns(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "log-b.out")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((80, 24)))
    done = parse(log)
    assert max(map(len, done.stdout.splitlines())) > 80, "the runner's output is no terminal"
    with pytest.raises(SystemExit):
        command([str(log)])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_without_a_path_experiments_is_read(parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no folder \./experiments here"):
        parse()
    write(tmp_path / "experiments/a/log-a.out")
    assert parse("--full-names").stdout.splitlines()[4].startswith("experiments/a/log-a.out ")


def test_a_bad_window_is_refused_before_anything_is_read(parse: Parse, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected A-B such as 35-44"):
        parse(tmp_path / "missing", "--window", "44")


def test_a_run_of_a_plugin_that_is_gone_still_has_its_times(parse: Parse, run: Path) -> None:
    done = parse(run, "--format", "json")
    (row,) = json.loads(done.stdout)
    assert (done.exit_code, row["step_time_mean_s"], row["tokens_per_s"], row["mfu"]) == (0, 2.0, 512.0, None)
    assert row["tflops_per_gpu_mean"] is None


def write_records(path: Path, images: Iterable[object] = range(10, 30)) -> Path:
    path.write_text("".join(json.dumps({"step": n, "images": i}) + "\n" for n, i in enumerate(images, 1)))
    return path


def test_a_measure_that_a_file_has_twice_is_a_finding(parse: Parse, tmp_path: Path) -> None:
    path = write_records(tmp_path / "images-3.jsonl")
    with path.open("a") as stream:
        stream.write('{"step": 14, "images": 99}\n{"step": 15, "images": 24}\n')
    done = parse(path, "--window", "11-20", "--format", "json")
    (found,) = (each for each in json.loads(done.stdout)[0]["checks"] if each["check"] == "measure-twice")
    assert found["outcome"] == "warning"
    assert found["text"] == "the log has images of step 14 twice, with different values; the last one is used"


def test_the_format_that_declares_such_files_reads_one(parse: Parse, tmp_path: Path) -> None:
    path = write_records(tmp_path / "images-3.jsonl")
    done = parse(path, "--window", "11-20", "--format", "json")
    (row,) = json.loads(done.stdout)
    assert (done.exit_code, row["format"], row["status"], row["steps_measured"]) == (0, "Images", "Success", 10)
    assert row["measures"]["images"]["per_second"] == sum(range(20, 30)) / 20
    assert "images: 12.25 images/s" in parse(path, "--window", "11-20").stdout
    (line,) = csv.DictReader(io.StringIO(parse(path, "--window", "11-20", "--format", "csv").stdout))
    assert (line["measures.images.per_second"], line["measures.images.steps"]) == ("12.25", "10")


def test_another_name_needs_the_format(parse: Parse, tmp_path: Path) -> None:
    path = write_records(tmp_path / "mine.jsonl")
    with pytest.raises(UsageError, match=r"mine.jsonl: no format declares such files: .*--log-format \(Images\)"):
        parse(path)
    (row,) = json.loads(parse(path, "--log-format", "Images", "--format", "json").stdout)
    assert row["steps_seen"] == 20
    with pytest.raises(UsageError, match=r"--log-format Image: no such format \(did you mean 'Images'\?\)"):
        parse(path, "--log-format", "Image")
    with pytest.raises(UsageError, match="a plugin's log parser declares them as `sources`"):
        parse(path, formats=(Plain,))


def test_several_formats_for_one_file_need_a_choice(parse: Parse, tmp_path: Path) -> None:
    path = write_records(tmp_path / "images-1.jsonl")
    with pytest.raises(UsageError, match=r"several formats read such files: .*--log-format \(Images, AnyLines\)"):
        parse(path, formats=(Images, AnyLines))
    (row,) = json.loads(parse(path, "--log-format", "AnyLines", "--format", "json", formats=(Images, AnyLines)).stdout)
    assert row["format"] == "AnyLines"


def test_logs_beside_such_files_are_recognized_as_before(parse: Parse, tmp_path: Path) -> None:
    log = tmp_path / "log-a.txt"
    log.write_text("plain 1\nplain 2\n")
    rows = json.loads(
        parse(log, write_records(tmp_path / "images-1.jsonl"), "--format", "json", formats=(Plain, Images)).stdout
    )
    assert [(row["format"], row["steps_seen"]) for row in rows] == [("Plain", 2), ("Images", 20)]


def test_what_cannot_be_read_is_a_warning(parse: Parse, tmp_path: Path) -> None:
    path = write_records(tmp_path / "images-1.jsonl", [*range(19), True])
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
        assert said in unwrapped(done.stderr)


def unwrapped(text: str) -> str:
    """The lines of stderr without the line breaks that keep them below 80 columns."""
    assert max(map(len, text.splitlines())) <= 80 or "/" in text, "only a path is longer"
    return text.replace("\n  ", " ")


class Tracked(Images):
    sources = (Source(glob="events.out.tfevents.*", kind="tensorboard"), Source(glob="run-*.wandb", kind="wandb"))


@pytest.mark.parametrize(
    ("name", "package"), [("events.out.tfevents.1.host", "tensorboard"), ("run-1.wandb", "wandb 0.31 or newer")]
)
def test_a_file_whose_package_is_missing_has_one_line_that_says_so(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    monkeypatch.setattr(importlib, "import_module", missing)
    (tmp_path / name).write_bytes(b"x" * 100)
    done = parse(tmp_path / name, formats=(Tracked,))
    extra = package.partition(" ")[0]
    assert done.exit_code == 1
    assert f"{name}: {package} is not installed: pip install 'llmbx[{extra}]'\n" in unwrapped(done.stderr)


import_module = importlib.import_module


def missing(name: str) -> Any:
    """As if no package was installed but llmbx."""
    if name.startswith("llmbx"):
        return import_module(name)
    package = name.partition(".")[0]
    raise importlib.metadata.PackageNotFoundError(package) if package == name else ModuleNotFoundError(name=package)


@pytest.mark.parametrize("name", ["events.out.tfevents.1.host", "run-1.wandb"])
def test_a_file_that_is_not_what_its_name_says_is_one_line(parse: Parse, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\n\x1b[31m" * 1000)
    done = parse(tmp_path / name, formats=(Tracked,))
    assert done.exit_code == 1
    first, *others = unwrapped(done.stderr).splitlines()
    assert re.match(rf"llmbx: {name}: {name}: (damaged at byte 0; the rest is not read|.*bad header)", first)
    assert len(others) == 1 and "\x1b" not in done.stderr
