"""`llmbx.load_runs()`: earlier runs as typed entries, rows and frames."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import llmbx
from llmbx.config.install import Install
from llmbx.errors import UsageError
from llmbx.model import Observed
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import RESULT
from llmbx_history.columns import COLUMNS

from ...run_factory import CREATED, RunFactory, noise

Load = Callable[..., llmbx.Runs]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, install: Install, plugins: Plugins, run_factory: RunFactory) -> Load:
    """`load(…)`: the filters on an install of four runs: plain, fp8 and tagged, failed, without MFU."""
    run_factory.put(noise(1, 1.0))
    run_factory.put(noise(2, 1.1), dtype="fp8", tags=("accepted", "night"))
    run_factory.put(noise(3, 1.2), valid=False, record={"user": "another"})
    run_factory.put(noise(4, 0.9), peak=None)
    monkeypatch.setattr("llmbx.plugins.manager.load", lambda: plugins)
    return lambda **filters: llmbx.load_runs(install.root, **filters)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [4, 2, 1]),
        ({"user": "all"}, [4, 3, 2, 1]),
        ({"user": "another"}, [3]),
        ({"where": "step_time_s.mean < 1.05"}, [4, 1]),
        ({"tags": "accepted"}, [2]),
        ({"tags": ("accepted", "day")}, []),
        ({"since": datetime.fromtimestamp(CREATED + 2, UTC)}, [4, 2]),
        ({"until": datetime.fromtimestamp(CREATED + 2, UTC)}, [1]),
        ({"since": "1h"}, []),
        ({"sort": "-step_time_s", "limit": 2}, [2, 1]),
    ],
)
def test_filters_and_order(load: Load, filters: dict[str, Any], expected: list[int]) -> None:
    assert [round(run.created - CREATED) for run in load(**filters)] == expected


def test_entries_and_rows_are_those_of_the_results(load: Load) -> None:
    runs = load()
    newest, tagged, _ = runs
    result = json.loads(Path(tagged.folder, RESULT).read_text())
    assert (tagged.step_time_s, tagged.tags) == (result["step_time_s"]["mean"], ("accepted", "night"))
    row = runs.rows()[1]
    assert row.keys() == {*COLUMNS, "folder"}
    assert row["created"] == datetime.fromtimestamp(CREATED + 2, UTC)
    assert (row["tags"], row["data_valid"], row["workload.gpus"]) == (("accepted", "night"), True, 8)
    assert row["timing.total_s"] is None and newest.mfu is None
    assert runs[:2][1] == tagged and len(runs[:2]) == 2
    row["tags"] = ()
    assert runs.rows()[1]["tags"] == ("accepted", "night"), "a row is a copy"


def test_frames_have_a_type_for_every_column_and_keep_the_unknown_unknown(load: Load) -> None:
    import pandas  # here, as other test processes need neither
    import polars

    runs = load()
    for few in (runs, runs[:0]):
        frame, other = few.to_pandas(), few.to_polars()
        assert [*frame.columns] == [*other.columns] == [*COLUMNS, "folder"]
        assert frame.dtypes.astype(str)[["workload.gpus", "mfu.value", "data_valid", "created"]].tolist() == [
            "Int64", "float64", "boolean", "datetime64[us, UTC]"]  # fmt: skip
        assert other.schema["tags"] == polars.List(polars.String) and other.schema["workload.gpus"] == polars.Int64
        assert other.schema["created"] == polars.Datetime("us", "UTC")
    frame, other = runs.to_pandas(), runs.to_polars()
    assert frame["mfu.value"].isna().tolist() == other["mfu.value"].is_null().to_list() == [True, False, False]
    assert frame["exit_code"].tolist() == [0, 0, 0] and frame["timing.total_s"].isna().all()
    assert frame["step_time_s.mean"].mean() == pytest.approx(other["step_time_s.mean"].mean())
    assert frame["created"][0] == pandas.Timestamp(CREATED + 4, unit="s", tz="UTC")


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"where": "mfuu > 1"}, "no column named 'mfuu'"),
        ({"sort": "-mfuu"}, "sort: no column named 'mfuu'"),
        ({"since": "yesterday"}, "since 'yesterday': expected a date"),
        ({"tags": "two words"}, "tag 'two words': expected one word"),
        ({"user": ""}, "user: expected a name or 'all'"),
        ({"limit": -1}, "limit: expected 0 or more, got -1"),
    ],
)
def test_mistakes_name_the_argument(load: Load, filters: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load(**filters)


def test_a_folder_that_is_missing_is_an_error_and_an_empty_one_has_no_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"install .*/nowhere: no such folder"):
        llmbx.load_runs(tmp_path / "nowhere")
    assert len(llmbx.load_runs(tmp_path)) == 0


def test_the_install_is_that_of_the_command(load: Load, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMB_INSTALL", install.root)
    assert llmbx.load_runs() == load()


def test_a_missing_library_is_named_with_its_extra(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, frame in (("pandas", llmbx.Runs.to_pandas), ("polars", llmbx.Runs.to_polars)):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(UsageError, match=rf"{name} is not installed: pip install 'llmbx\[{name}\]'"):
            frame(load())


def test_the_umask_of_the_program_is_kept(load: Load, install: Install) -> None:
    install.path.chmod(0o775)
    before = os.umask(0o077)
    try:
        load()
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)


def test_importing_llmbx_imports_nothing_of_it() -> None:
    loaded = "[m for m in sys.modules if m == 'msgspec' or m.startswith('llmbx.')]"
    code = f"import sys; sys.path[:0] = {sys.path!r}; import llmbx; print({loaded})"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_column_has_a_meaning_and_its_unit() -> None:
    assert all(column.meaning for column in COLUMNS.values())
    assert all(column.kind in ("number", "count") for column in COLUMNS.values() if column.unit)
    stragglers = {f"stragglers.{name}" for name in ("before_s", "slowest_before_s", "wait_s", "lost_s_per_step")}
    timed = {name for name in COLUMNS if "step_time_s" in name.split(".") or name.startswith("timing.")}
    seconds = timed | stragglers
    assert {name for name, column in COLUMNS.items() if column.unit == "s"} == seconds


def test_a_run_is_found_by_the_uuid_of_its_gpu(
    load: Load, run_factory: RunFactory, install: Install, plugins: Plugins
) -> None:
    gpus = [Observed.Gpu(index=number, uuid=f"GPU-{number}", ranks=(number,)) for number in range(2)]
    nodes = (Observed.Node(node="n7", ranks=(0, 1), gpus=tuple(gpus)),)
    run_factory.put(noise(5, 1.0), result={"nodes": nodes})
    (row,) = load(where="nodes like '%GPU-1%'").rows()
    assert json.loads(row["nodes"]) == {"n7": {"0": "GPU-0", "1": "GPU-1"}}
