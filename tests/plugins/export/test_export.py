"""`llmbx export`: what other tools' own parsers read in the files."""

from __future__ import annotations

import csv
import io
import json
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from llmbx.errors import UsageError
from llmbx.model import JobStatus
from llmbx.model.result import Loss, Stability
from llmbx.record.folder import RESULT, Run
from llmbx_export.measures import CREATED, INFO, INFO_LABELS, LABELS, MEASURES
from llmbx_history.columns import COLUMNS

from ...run_factory import CREATED as BEGAN
from ...run_factory import RunFactory, noise
from .conftest import Export

Parse = Callable[[str], Iterable[Metric]]
PARSERS: dict[str, Parse] = {
    "prometheus": text_string_to_metric_families,
    "openmetrics": openmetrics.text_string_to_metric_families,
}
HOSTILE = 'back\\slash "quote"\nline'


@pytest.fixture
def made(run_factory: RunFactory) -> list[Run]:
    """A good run, a failed one of another user with a cause, and one without a peak and with a hostile text."""
    return [
        run_factory.put(noise(1, 1.0), tags=("nightly",), result={
            "comparable": True, "stability": Stability(verdict="stable", reason="x"), "peak_memory_gb": 70.5,
            "gpu_hours": 2.0}),
        run_factory.put(noise(2, 1.1), valid=False, record={"user": "another"}, result={
            "cause": "no, \"never\"", "comparable": False}),
        run_factory.put(noise(3, 0.9), peak=None, recipe=HOSTILE, result={
            "recipe": HOSTILE, "comparable": False, "loss": Loss(first=0.0)}),
    ]  # fmt: skip


def read(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.path / RESULT).read_text())
    return found


@pytest.mark.parametrize("format_", PARSERS)
def test_the_parsers_of_prometheus_read_the_figures(made: list[Run], export: Export, format_: str) -> None:
    text = export(format_, *(run.record.run_id for run in made)).stdout
    families = {family.name: family for family in PARSERS[format_](text)}
    mean = families["llmbx_step_time_mean_seconds"]
    assert mean.type == "gauge" and mean.documentation == "Mean step time over the window."
    assert [sample.value for sample in mean.samples] == [read(run)["step_time_s"]["mean"] for run in made]
    labels = [sample.labels for sample in mean.samples]
    assert [one["status"] for one in labels] == ["completed", "failed", "completed"]
    assert [(one["valid"], one["comparable"]) for one in labels] == [
        ("true", "true"), ("false", "false"), ("true", "false")]  # fmt: skip
    assert labels[0]["stability"] == "stable" and labels[0]["gpus"] == "8" and labels[0]["workload"] == "line"
    assert [s.value for s in families["llmbx_gpu_peak_memory_bytes"].samples] == [70.5e9]
    assert [s.value for s in families["llmbx_gpu_time_seconds"].samples] == [7200]
    rate = families["llmbx_gpu_flops_per_second"].samples[0].value
    assert rate == pytest.approx(1e12 * read(made[0])["tflops_per_gpu"]["mean"])
    assert [s.value for s in families["llmbx_run_timestamp_seconds"].samples] == [BEGAN + 1, BEGAN + 2, BEGAN + 3]
    assert len(families["llmbx_mfu_ratio"].samples) == 2, "the MFU of the third run is unknown"
    assert [s.value for s in families["llmbx_loss_first"].samples][-1] == 0.0, "0 is a value"
    assert len(families["llmbx_loss_last"].samples) == 2 and "llmbx_queue_seconds" not in families
    (info,) = [f for f in families.values() if f.samples[0].name == INFO]
    assert [sample.value for sample in info.samples] == [1, 1, 1]
    assert info.samples[2].labels["recipe"] == HOSTILE and "mfu_peak" not in info.samples[2].labels
    assert info.samples[0].labels["tags"] == "nightly" and info.samples[1].labels["user"] == "another"
    assert text.endswith("# EOF\n") is (format_ == "openmetrics")
    if format_ == "openmetrics":
        assert (info.type, mean.unit, families["llmbx_mfu_ratio"].unit) == ("info", "seconds", "ratio")


def test_the_names_follow_the_conventions_and_the_units_of_the_columns() -> None:
    base = {"s": ("seconds", 1), "GB": ("bytes", 1e9), "TFLOP/s": ("flops_per_second", 1e12), "fraction": ("ratio", 1),
            "tokens/s": ("tokens_per_second", 1), "days": ("seconds", 86400), "GPU hours": ("seconds", 3600),
            "steps": ("", 1), "": ("", 1)}  # fmt: skip
    for measure in MEASURES:
        assert (measure.unit, measure.factor) == base[COLUMNS[measure.column].unit], measure
        assert measure.name.endswith(f"_{measure.unit}" if measure.unit else measure.column.replace(".", "_"))
    assert len({measure.name for measure in (*MEASURES, CREATED)}) == len(MEASURES) + 1
    assert {*LABELS.values(), *INFO_LABELS.values()} <= COLUMNS.keys() and not LABELS.keys() & INFO_LABELS.keys()


def test_a_textfile_is_replaced_and_readable_for_the_collector(made: list[Run], export: Export, tmp_path: Path) -> None:
    file = tmp_path / "new" / "llmbx.prom"
    file.parent.mkdir()
    file.write_text("old")
    before = file.stat().st_ino
    done = export("prometheus", "last", "--output", str(file))
    assert (done.stdout, done.stderr) == ("", f"wrote {file}\n")
    assert file.read_text() == export("prometheus", "last").stdout and file.stat().st_ino != before
    assert file.stat().st_mode & stat.S_IROTH and [path.name for path in file.parent.iterdir()] == ["llmbx.prom"]
    with pytest.raises(UsageError, match=r"llmbx\.txt: the textfile collector reads only names that end with \.prom"):
        export("prometheus", "--output", str(tmp_path / "llmbx.txt"))


def test_a_run_that_goes_on_has_the_state_of_its_job_and_no_figures(
    made: list[Run], export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made[2].path / RESULT).unlink()
    monkeypatch.setattr("llmbx.run.remeasure.job_status", lambda run, plugins: JobStatus(state="running"))
    families = {
        family.name: family for family in openmetrics.text_string_to_metric_families(export("openmetrics").stdout)
    }
    assert families.keys() == {"llmbx_run", "llmbx_run_timestamp_seconds"}
    assert families["llmbx_run"].samples[0].labels["status"] == "running"
    assert "valid" not in families["llmbx_run"].samples[0].labels


def test_csv_has_every_column_and_leaves_the_unknown_empty(made: list[Run], export: Export) -> None:
    rows = list(csv.DictReader(io.StringIO(export("csv", *(run.record.run_id for run in made)).stdout)))
    assert [*rows[0]] == [*COLUMNS, "folder"]
    assert [row["run_id"] for row in rows] == [run.record.run_id for run in made]
    assert [row["data_valid"] for row in rows] == ["true", "false", "true"]
    assert float(rows[0]["step_time_s.mean"]) == read(made[0])["step_time_s"]["mean"]
    assert (rows[2]["mfu.value"], rows[0]["created"], rows[0]["tags"]) == ("", "2023-11-14T22:13:21+00:00", "nightly")
    assert rows[1]["cause"] == 'no, "never"' and rows[2]["loss.first"] == "0.0"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), [2]),
        (("last~1",), [0]),
        (("--user", "all"), [2, 1, 0]),
        (("--tag", "nightly"), [0]),
        (("--where", "step_time_s.mean > 1.05", "--user", "all"), [1]),
        (("--since", "2023-11-01"), [2, 0]),
    ],
)
def test_runs_are_named_or_filtered(
    made: list[Run], export: Export, arguments: tuple[str, ...], expected: list[int]
) -> None:
    rows = csv.DictReader(io.StringIO(export("csv", *arguments).stdout))
    assert [row["run_id"] for row in rows] == [made[number].record.run_id for number in expected]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("csv", "--tag", "weekly"), "no run in .* matches"),
        (("csv", "last", "--tag", "nightly"), "RUN cannot be combined with --where, --since, --tag and --user"),
        (("csv", "nothing"), "no run 'nothing'"),
        (("csv", "--where", "mfuu > 1"), "no column named 'mfuu'"),
        (("openmetrics", "--since", "now"), "since 'now': expected a date"),
    ],
)
def test_an_empty_or_wrong_selection_is_an_error(
    made: list[Run], export: Export, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    file = tmp_path / "out"
    with pytest.raises(UsageError, match=says):
        export(*arguments, "--output", str(file))
    assert not file.exists()


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_is_named_with_its_extra(
    made: list[Run], export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=rf"^{name} is not installed: pip install 'llmbx\[{name}\]'$"):
        export(name, "last", "--output", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
