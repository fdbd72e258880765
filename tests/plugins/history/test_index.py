"""The index agrees with the run folders, whatever happens to its file and whoever writes the folders."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmbx.config.install import Install
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import RESULT, read_result, write_record, write_result
from llmbx.record.history import Selection
from llmbx.run.remeasure import save_window
from llmbx_history import scan
from llmbx_history.columns import COLUMNS
from llmbx_history.index import SCHEMA, index_path, schema
from llmbx_history.runs import list_runs, rebuild, select
from llmbx_history.tags import change_tags

from ...run_factory import RunFactory, noise


def ids(install: Install, **wanted: Any) -> list[str]:
    return [run.record.run_id for run in select(install, Selection(**wanted))]


def file_of(install: Install) -> Path:
    return index_path(install, os.environ)


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No grace period for change times: young folders are not read a second time."""
    monkeypatch.setattr(scan, "GRACE_S", -1.0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The run folders whose files are read from now on."""
    seen: list[Path] = []
    real = scan.read_values

    def read(folder: Path) -> Any:
        seen.append(folder)
        return real(folder)

    monkeypatch.setattr(scan, "read_values", read)
    return seen


def test_runs_are_found_newest_first_and_read_only_once(run_factory: RunFactory, reads: list[Path]) -> None:
    made = [run_factory.put(noise(seed, 1.0)).record.run_id for seed in range(4)]
    assert ids(run_factory.install) == made[::-1]
    assert len(reads) == 4
    assert ids(run_factory.install) == made[::-1]
    assert len(reads) == 4
    run_factory.put(noise(9, 1.0), dtype="fp8")
    assert len(ids(run_factory.install)) == 5
    assert len(reads) == 5


@pytest.mark.parametrize(
    "harm", ["deleted", "empty", "garbage", "cut", "middle", "schema", "newer", "tables", "folder"]
)
def test_a_damaged_index_is_rebuilt(run_factory: RunFactory, harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = [run_factory.put(noise(seed, 1.0)).record.run_id for seed in range(12)]
    assert len(ids(run_factory.install)) == 12
    path = file_of(run_factory.install)
    content = path.read_bytes()
    if harm == "deleted":
        path.unlink()
    elif harm == "folder":
        shutil.rmtree(path.parent)
    elif harm == "empty":
        path.write_bytes(b"")
    elif harm == "garbage":
        path.write_bytes(bytes(range(256)) * 40)
    elif harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif harm == "middle":
        path.write_bytes(content[:4096] + b"\xff" * 20000 + content[24096:])
    else:
        with sqlite3.connect(path) as db:
            if harm == "tables":
                db.execute("DROP TABLE documents")
                db.execute("DROP TABLE experiments")
            else:
                db.execute(f"PRAGMA user_version = {0 if harm == 'schema' else 999}")
        db.close()
    run_factory.put(noise(50, 1.0))
    assert ids(run_factory.install)[1:] == made[::-1]
    assert capsys.readouterr().err == ""


def test_an_index_with_other_columns_is_one_of_another_schema() -> None:
    """Nobody has to think of a number when a column is added."""
    assert len({schema([*COLUMNS, "new"]), schema(list(COLUMNS)[1:]), SCHEMA}) == 3


def test_without_a_writable_cache_the_folders_are_read_with_one_note(
    run_factory: RunFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run_factory.put(noise(1, 1.0)).record.run_id
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert ids(run_factory.install) == ids(run_factory.install) == [made]
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "cannot use the history index" in err and "(Not a directory): reading the run folders instead" in err


def test_waiting_for_a_locked_index_times_out(
    run_factory: RunFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run_factory.put(noise(1, 1.0)).record.run_id
    ids(run_factory.install)
    from llmbx_history import index

    monkeypatch.setattr(index, "LOCK_TIMEOUT_S", 0.2)
    with sqlite3.connect(file_of(run_factory.install), isolation_level=None) as db:
        db.execute("BEGIN EXCLUSIVE")
        assert ids(run_factory.install) == [made]
        db.execute("ROLLBACK")
    db.close()
    assert "database is locked" in capsys.readouterr().err


def test_each_install_has_an_index_of_its_own_by_its_resolved_path(
    run_factory: RunFactory, tmp_path: Path, make_spec: Callable[..., Any]
) -> None:
    made = run_factory.put(noise(1, 1.0)).record.run_id
    other = Install(root=str(tmp_path / "other" / "install"), origin="test")
    (tmp_path / "link").symlink_to(run_factory.install.root)
    linked = Install(root=str(tmp_path / "link"), origin="test")
    assert file_of(linked) == file_of(run_factory.install) != file_of(other)
    assert (ids(run_factory.install), ids(other), ids(linked)) == ([made], [], [made])
    assert select(linked, Selection())[0].folder.startswith(str(tmp_path / "link"))


def test_changes_to_the_folders_by_others_are_detected(run_factory: RunFactory) -> None:
    a, b, c = (run_factory.put(noise(seed, 1.0)) for seed in range(3))
    far = run_factory.put(noise(5, 1.0), dtype="fp8")
    assert len(ids(run_factory.install)) == 4
    shutil.rmtree(b.path.parent)
    assert ids(run_factory.install) == [far.record.run_id, c.record.run_id, a.record.run_id]
    shutil.rmtree(far.path.parents[1])
    assert ids(run_factory.install) == [c.record.run_id, a.record.run_id]
    change_tags(a, add=["accepted"])
    assert ids(run_factory.install, tags=("accepted",)) == [a.record.run_id]
    inner = a.path.rename(a.path.parent.parent.parent / "elsewhere")
    os.utime(a.path.parents[1])
    assert ids(run_factory.install) == [c.record.run_id]
    inner.rename(a.path)
    os.utime(a.path.parents[1])
    moved = c.path.parents[1].rename(c.path.parents[2] / "renamed")
    assert len(ids(run_factory.install)) == 2
    shutil.rmtree(moved.parent)
    assert ids(run_factory.install) == []


def test_a_run_without_a_result_is_checked_every_time(
    run_factory: RunFactory, plugins: Plugins, reads: list[Path]
) -> None:
    """Its result may be written by another machine, without a change of the experiment folder's time."""
    run = run_factory.put(noise(1, 1.0))
    result = read_result(run.path)
    assert result is not None
    (run.path / RESULT).unlink()
    first = select(run_factory.install, Selection(equal={"status": ("unknown",)}))
    assert [found.record.run_id for found in first] == [run.record.run_id]
    write_result(run.path, result)
    assert ids(run_factory.install, equal={"status": ("completed",)}) == [run.record.run_id]
    before = len(reads)
    assert ids(run_factory.install, equal={"status": ("completed",)}) == [run.record.run_id]
    assert len(reads) == before


def test_a_folder_changed_recently_is_read_again(
    run_factory: RunFactory, monkeypatch: pytest.MonkeyPatch, reads: list[Path]
) -> None:
    """File system clocks can be coarse: a second run may get the same change time as the one already indexed."""
    monkeypatch.setattr(scan, "GRACE_S", 3600.0)
    run_factory.put(noise(1, 1.0))
    assert len(ids(run_factory.install)) == len(ids(run_factory.install)) == 1
    assert len(reads) == 2


def test_listing_finalizes_a_run_that_has_ended(run_factory: RunFactory, plugins: Plugins) -> None:
    run = run_factory.put(noise(1, 1.0))
    (run.path / RESULT).unlink()
    run_factory.put(noise(2, 1.0))
    found = list_runs(run_factory.install, lambda: plugins, Selection(), ["run_id", "status", "cause"])
    assert found.rows[1] == (run.record.run_id, "lost", "llmbx ended before the run was started")
    assert found.rows[0][1] == "completed"
    assert (run.path / RESULT).is_file()


def test_a_run_whose_plugin_is_missing_is_listed(run_factory: RunFactory, plugins: Plugins) -> None:
    run = run_factory.put(noise(1, 1.0), plugin="gone")
    (run.path / RESULT).unlink()
    found = list_runs(run_factory.install, lambda: plugins, Selection(), ["status", "cause"])
    ((status, cause),) = found.rows
    assert status == "unknown" and "no framework plugin named 'gone'" in str(cause)


def test_damaged_records_and_results_do_not_hide_the_others(run_factory: RunFactory, plugins: Plugins) -> None:
    good, bad, half = (run_factory.put(noise(seed, 1.0)) for seed in range(3))
    (bad.path / "run.json").write_text("{]")
    (half.path / RESULT).write_text('{"status": ["no"], "step_time_s": 3, "workload": {"gpus": 1e300}}')
    found = list_runs(run_factory.install, lambda: plugins, Selection(), ["run_id", "status"])
    assert found.rows == ((half.record.run_id, "damaged"), (good.record.run_id, "completed"))
    ((folder, why),) = found.damaged
    assert folder == str(bad.path.relative_to(run_factory.install.path)) and "JSON is malformed" in why
    write_record(bad.path, bad.record)
    os.utime(bad.path.parents[1])
    again = list_runs(run_factory.install, lambda: plugins, Selection(), ["run_id"])
    assert (len(again.rows), again.damaged) == (3, ())


@pytest.mark.parametrize("version", [2, 4])
def test_a_run_of_another_version_is_listed(run_factory: RunFactory, plugins: Plugins, version: int) -> None:
    good, other = (run_factory.put(noise(seed, 1.0)) for seed in range(2))
    write_record(other.path, other.record.replace(schema_version=version))
    found = list_runs(run_factory.install, lambda: plugins, Selection(), ["run_id"])
    assert found.rows == ((other.record.run_id,), (good.record.run_id,))
    assert ids(run_factory.install) == [good.record.run_id]


def test_rebuild_reads_everything_again(run_factory: RunFactory, reads: list[Path]) -> None:
    run = run_factory.put(noise(1, 1.0))
    ids(run_factory.install)
    result = read_result(run.path)
    assert result is not None
    (run.path / RESULT).write_text((run.path / RESULT).read_text().replace('"completed"', '"cancelled"'))
    assert ids(run_factory.install, equal={"status": ("completed",)}) == [run.record.run_id]
    seen: list[tuple[int, int]] = []
    assert rebuild(run_factory.install, lambda done, of: seen.append((done, of))) == 1
    assert ids(run_factory.install, equal={"status": ("cancelled",)}) == [run.record.run_id]
    assert len(reads) == 2


def test_a_workload_folder_of_its_own_belongs_to_the_install(run_factory: RunFactory, tmp_path: Path) -> None:
    run_factory.put(noise(1, 1.0))
    own = Install(root=run_factory.install.root, origin="test", workload_root=str(tmp_path / "mine"))
    made = RunFactory(own, run_factory.spec.replace(dtype="fp8")).put(noise(2, 1.0))
    assert made.folder.startswith(str(tmp_path / "mine"))
    assert len(ids(own)) == 2
    assert len(ids(run_factory.install)) == 1
    assert made.folder in [run.folder for run in select(own, Selection())]


WRITER = """
import sys, random
from pathlib import Path
import msgspec
from llmbx_history.runs import select
from llmbx.record.history import Selection
from llmbx.record.names import find_run
from llmbx_history.tags import change_tags
from llmbx.config.install import Install
from llmbx.record.folder import Record, claim_folder, write_record, write_result, read_run, Run
from llmbx.model import Result

root, template, number = sys.argv[1:]
install = Install(root=root, origin="test")
base = msgspec.json.decode(Path(template).read_bytes(), type=Record)
shared = find_run(install, base.run_id)
for turn in range(6):
    run_id, _, folder = claim_folder(install, base.spec)
    write_record(folder, base.replace(run_id=run_id, created=float(run_id.rsplit("_", 1)[1])))
    if turn % 2:
        select(install, Selection())
    write_result(folder, Result(run_id=run_id, status="completed", data_valid=True))
    change_tags(shared, add=[f"w{number}-{turn}"])
    change_tags(Run(folder=str(folder), record=read_run(folder).record), add=["mine"])
    select(install, Selection(limit=3))
    print(run_id)
"""


def test_many_processes_at_once_lose_nothing(run_factory: RunFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six processes create runs, tag one run and list runs in one experiment; one of them starts without an index."""
    monkeypatch.undo()
    os.environ["XDG_CACHE_HOME"] = str(run_factory.install.path.parent / "cache")
    run = run_factory.put(noise(1, 1.0))
    command = [sys.executable, "-c", WRITER, run_factory.install.root, str(run.path / "run.json")]
    started = [
        subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(6)
    ]
    ended = [process.communicate() for process in started]
    assert [err for _, err in ended] == [""] * 6
    made = {line for out, _ in ended for line in out.split()}
    assert len(made) == 36
    assert set(ids(run_factory.install)) == {*made, run.record.run_id}
    assert set(ids(run_factory.install, tags=("mine",), equal={"status": ("completed",)})) == made
    wanted = tuple(f"w{number}-{turn}" for number in range(6) for turn in range(6))
    assert ids(run_factory.install, tags=wanted) == [run.record.run_id]


def test_a_saved_window_is_in_the_next_listing(
    run_factory: RunFactory, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "GRACE_S", -1.0)
    run = run_factory.put(noise(1, 2.0))
    assert select(run_factory.install, Selection(where="window.first == 11")) == [run]
    result = run.read_result()
    assert result is not None
    save_window(run, result, plugins, "20-29")
    assert select(run_factory.install, Selection(where="window.first == 20")) == [run]
