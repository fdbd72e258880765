"""`llmbx parse`: rows, tables, JSON, CSV, statuses, exit codes. The format here is the tests' own."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

import llmbx.plugins.manager
from llmbx.cli.parse import command
from llmbx.cli.parse_rows import Row, parse_logs
from llmbx.cli.parse_table import table
from llmbx.errors import InfraError, UsageError
from llmbx.logs.find import find_logs
from llmbx.logs.parser import LogFormat, Record
from llmbx.measure.figures import measure
from llmbx.model import Event, RunSpec, Step
from llmbx.model.flops import Flops
from llmbx.record.folder import Run, new_record, write_record

TIMES = [30.0, 8.0, *[5.0 + 0.001 * (k * 7 % 5) for k in range(48)]]


class Toy:
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

    def close(self) -> Iterable[Record]:
        return []


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


def rows(*paths: Path, window: str | None = None) -> list[Row]:
    return parse_logs(find_logs(paths), FORMATS, window)


def test_mean_and_sample_deviation_over_the_formats_window(tmp_path: Path) -> None:
    (row,) = rows(write(tmp_path / "log-a.out"))
    inside, figures = TIMES[34:44], [100 + k / 10 for k in range(35, 45)]
    assert (row.status, row.window, row.window_policy, row.steps_measured, row.steps_seen) == (
        "Success",
        "35-44",
        "35-44",
        10,
        50,
    )
    assert row.step_time_mean_s == pytest.approx(statistics.fmean(inside))
    assert row.step_time_std_s == pytest.approx(statistics.stdev(inside))
    assert row.tflops_per_gpu_mean == pytest.approx(statistics.fmean(figures))
    assert row.tflops_per_gpu_std == pytest.approx(statistics.stdev(figures))
    assert (row.tflops_source, row.tokens_per_s, row.mfu) == ("log", None, None)


def test_a_log_that_does_not_reach_its_window_has_failed(tmp_path: Path) -> None:
    (row,) = rows(write(tmp_path / "log-a.out", TIMES[:12], "toy died: ValueError: no"))
    assert (row.status, row.window, row.steps_measured) == ("Failed (12 iterations)", "35-44", 0)
    assert (row.step_time_mean_s, row.step_time_std_s, row.tflops_per_gpu_mean) == (None, None, None)
    assert row.cause == "ValueError: no"
    assert not row.valid


def test_the_window_can_be_chosen(tmp_path: Path) -> None:
    log = write(tmp_path / "log-a.out", TIMES[:12])
    assert rows(log, window="3-12")[0].steps_measured == 10
    last = rows(log, window="last")[0]
    assert (last.window, last.step_time_mean_s, last.step_time_std_s) == ("12-12", TIMES[11], None)
    auto = rows(log, window="auto")[0]
    assert (auto.window, auto.window_policy) == ("5-12", "auto")


def test_the_steady_state_stands_beside_the_recipes_window(tmp_path: Path) -> None:
    log = write(tmp_path / "log-short.out", TIMES)
    (row,) = rows(log)
    assert (row.window, row.step_time_mean_s) == ("50-50", TIMES[-1])
    assert row.steady is not None
    assert (row.steady.window, row.steady.steps_measured) == ("17-50", 34)
    assert row.steady.step_time_mean_s == pytest.approx(statistics.fmean(TIMES[16:]))
    assert "dropped as warm-up" in str(row.steady.window_reason)
    parts = table([row]).split("\n\n")
    assert ["(last iteration)" in parts[0], "(steady state)" in parts[1]] == [True, True]
    assert rows(log, window="35-44")[0].steady is None
    assert rows(write(tmp_path / "log-b.out", TIMES[:12]))[0].steady is None


def test_tokens_a_second_come_from_the_logs_own_count(tmp_path: Path) -> None:
    class Counting(Toy):
        def feed(self, line: str) -> Iterable[Record]:
            return [r.replace(tokens=1000) if isinstance(r, Step) and r.number != 40 else r for r in super().feed(line)]

    formats = [LogFormat("counting", "Counting", sniff, Counting, lambda name: "last")]
    log = write(tmp_path / "log-a.out", TIMES)
    (row,) = parse_logs(find_logs([log]), formats)
    assert row.tokens_per_s == pytest.approx(1000 / TIMES[-1])
    assert parse_logs(find_logs([log]), formats, "35-44")[0].tokens_per_s is None
    assert parse_logs(find_logs([log]), formats, "41-42")[0].tokens_per_s == pytest.approx(2000 / sum(TIMES[40:42]))


def test_a_figure_that_the_log_rounds_away_is_unknown(tmp_path: Path) -> None:
    (row,) = rows(write(tmp_path / "log-a.out", more=", 0.1 TFLOPS"))
    assert (row.status, row.tflops_per_gpu_mean, row.tflops_source) == ("Success", None, None)


def test_a_run_with_a_loss_that_is_not_finite_has_failed(tmp_path: Path) -> None:
    (row,) = rows(write(tmp_path / "log-a.out", more=", 100.0 TFLOPS, loss nan"))
    assert row.status == "Failed (the loss is not finite at step 1)"


def test_files_without_a_format(tmp_path: Path) -> None:
    for name in ("log-crashed.out", "slurm-1.out", "named.txt"):
        (tmp_path / name).write_text("nothing to see\n")
    assert [(r.experiment, r.format, r.status) for r in rows(tmp_path)] == [("crashed", None, "Failed (0 iterations)")]
    (named,) = rows(tmp_path / "named.txt")
    assert named.status == "Failed (0 iterations)"
    assert named.cause == "no log format recognizes a line of the file (known: toy, toy-ms)"


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
    assert row.cause is not None and row.cause.removesuffix(str(tmp_path / name)) == cause


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
    golden("parse_table.txt", table(rows(tmp_path)))
    long = table([row.replace(path=row.path.removeprefix(f"{tmp_path}/")) for row in rows(tmp_path)], full_names=True)
    assert re.search(r"^a/log-team\.seconds_with_a_rather_long_name_4711_0\.out +Success ", long, re.MULTILINE)


@pytest.fixture
def run(tmp_path: Path, make_spec: Callable[..., RunSpec]) -> Path:
    """A run folder of llmbx: 20 steps of 2 s, window 11-18, 8 samples of 128 tokens a step on 2 GPUs."""
    spec = make_spec()
    folder = tmp_path / "experiments" / spec.experiment / f"{spec.experiment}_1" / spec.experiment
    write(folder / f"log-{spec.experiment}.out", [2.0] * 20, more=", 0.0 TFLOPS")
    write_record(folder, new_record(f"{spec.experiment}_1", spec, command=("llmbx", "run")))
    return folder


def ask(run: Run, steps: Sequence[Step], policy: str | None) -> object:
    return measure(run.record.spec, steps, Flops(full=1e15, causal=5e14, formula="f"), policy)


def test_a_run_of_llmbx_is_measured_by_its_record(run: Path) -> None:
    (row,) = parse_logs(find_logs([run]), FORMATS, None, ask)  # type: ignore[arg-type]
    assert (row.status, row.window, row.steps_measured) == ("Success", "11-18", 8)
    assert row.tokens_per_s == pytest.approx(8 * 128 / 2.0)
    assert row.tflops_per_gpu_mean == pytest.approx(8 * 1e15 / 2.0 / 2 / 1e12)
    assert row.tflops_source == "recomputed"
    assert "2000.00*" in table([row]) and "* recomputed from step time" in table([row])
    (other,) = parse_logs(find_logs([run]), FORMATS, "last", ask)  # type: ignore[arg-type]
    assert (other.window, other.steps_measured) == ("20-20", 1)


def test_a_record_that_cannot_be_read_leaves_the_log_alone(run: Path) -> None:
    (run / "run.json").write_text("{")
    (row,) = parse_logs(find_logs([run]), FORMATS, "last", ask)  # type: ignore[arg-type]
    assert (row.status, row.tokens_per_s) == ("Success", None)


def test_a_run_that_has_not_ended_is_running_and_one_without_times_says_so(run: Path) -> None:
    def status(goes_on: bool, policy: str | None = None) -> str:
        (row,) = parse_logs(find_logs([run]), FORMATS, policy, ask, goes_on=lambda run: goes_on)  # type: ignore[arg-type]
        return row.status

    log = next(run.glob("log-*.out"))
    write(log, [2.0] * 5, more=", 0.0 TFLOPS")
    assert (status(True), status(False)) == ("Running (5 iterations)", "Failed (5 iterations)")
    write(log, [2.0] * 20, more=", 0.0 TFLOPS")
    assert status(True) == "Success"


class TestCommand:
    @pytest.fixture(autouse=True)
    def _formats(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plugins = SimpleNamespace(log_formats=lambda: FORMATS, frameworks=list)
        monkeypatch.setattr(llmbx.plugins.manager, "load", lambda: plugins)

    def call(self, *arguments: str | Path) -> Result:
        return CliRunner().invoke(command, [str(a) for a in arguments])

    def test_json_is_a_list_of_objects_with_null_for_unknown(self, tmp_path: Path) -> None:
        done = self.call(
            write(tmp_path / "log-a.out", more=""), write(tmp_path / "log-b.out", TIMES[:3]), "--format", "json"
        )
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

    def test_csv_has_a_header_and_empty_fields(self, tmp_path: Path) -> None:
        done = self.call(write(tmp_path / "log-a.out"), write(tmp_path / "log-b.out", TIMES[:3]), "--format", "csv")
        good, bad = csv.DictReader(io.StringIO(done.stdout))
        assert float(good["step_time_mean_s"]) == pytest.approx(statistics.fmean(TIMES[34:44]))
        assert (bad["status"], bad["step_time_mean_s"], bad["tflops_per_gpu_std"]) == ("Failed (3 iterations)", "", "")

    def test_nothing_valid_is_exit_1(self, tmp_path: Path) -> None:
        done = self.call(write(tmp_path / "log-b.out", TIMES[:3], "toy died: ValueError: no"))
        assert done.exit_code == 1
        assert "Failed (3 iterations)" in done.stdout
        assert "llmbx: b: ValueError: no" in done.stderr
        assert "none of 1 logs contains a valid measurement" in done.stderr
        (tmp_path / "empty").mkdir()
        none = self.call(tmp_path / "empty", "--format", "json")
        assert (none.exit_code, json.loads(none.stdout)) == (1, [])
        assert f"no training log found in {tmp_path / 'empty'}" in none.stderr

    def test_without_a_path_experiments_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        lost = self.call()
        assert isinstance(lost.exception, UsageError)
        assert "no folder ./experiments here" in str(lost.exception)
        write(tmp_path / "experiments/a/log-a.out")
        assert self.call("--full-names").stdout.splitlines()[4].startswith("experiments/a/log-a.out ")

    def test_a_bad_window_is_refused_before_anything_is_read(self, tmp_path: Path) -> None:
        done = self.call(tmp_path / "missing", "--window", "44")
        assert isinstance(done.exception, UsageError)
        assert "expected A-B such as 35-44" in str(done.exception)

    def test_a_run_of_a_plugin_that_is_gone_still_has_its_times(self, run: Path) -> None:
        done = self.call(run, "--format", "json")
        (row,) = json.loads(done.stdout)
        assert (done.exit_code, row["step_time_mean_s"], row["tokens_per_s"], row["mfu"]) == (0, 2.0, 512.0, None)
        assert row["tflops_per_gpu_mean"] is None
