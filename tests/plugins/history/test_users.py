"""Runs of several users in one install, without becoming one of them (see tests/integration/test_users)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmbx.config.install import Install
from llmbx.errors import UsageError
from llmbx.files import write_atomic
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import current_user, new_record, read_result
from llmbx.run import assess, finalize, remeasure
from llmbx.run_files import user_name

from .conftest import Jobs, RunFactory

Listed = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def umask() -> Iterator[None]:
    """The umask 022 during the test."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def put(run_factory: RunFactory, user: str) -> str:
    run = run_factory.put([8.0] * 50, record={"user": user})
    return run.record.run_id


def test_jobs_lists_my_runs(run_factory: RunFactory, jobs: Jobs, listed: Listed) -> None:
    mine, theirs = put(run_factory, current_user()), put(run_factory, "somebody")
    assert [row["run_id"] for row in listed()] == [mine]
    assert [row["run_id"] for row in listed("--user", "somebody")] == [theirs]
    assert [row["user"] for row in listed("--user", "all")] == ["somebody", current_user()]
    assert [row["run_id"] for row in listed("--user", "somebody", "--user", current_user())] == [theirs, mine]
    assert "1 run of other users not shown; use --user all" in jobs().stderr
    shown = jobs("--user", "all")
    assert "user" in shown.stdout.splitlines()[0] and "somebody" in shown.stdout and "not shown" not in shown.stderr
    assert listed("--user", "all", "--where", "user == 'somebody'")[0]["run_id"] == theirs


def test_an_install_with_runs_of_others_only_says_so(run_factory: RunFactory, install: Install, jobs: Jobs) -> None:
    put(run_factory, "somebody")
    assert "none of your runs" in jobs().stderr and "--user all" in jobs().stderr


def test_a_record_has_the_user_and_its_result_too(run_factory: RunFactory) -> None:
    assert new_record("x_1", id="x1", spec=run_factory.spec, command=()).user == user_name(os.geteuid())
    run = run_factory.put([8.0] * 50, record={"user": "somebody"})
    result = read_result(run.path)
    assert result is not None and result.user == "somebody"
    assert user_name(4_000_000_000) == "4000000000"


@pytest.mark.parametrize(("mode", "expected"), [(0o2775, 0o664), (0o775, 0o664), (0o755, 0o644), (0o770, 0o664)])
def test_files_in_an_install_that_its_group_can_write_are_writable_for_the_group(
    umask: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, expected: int
) -> None:
    from llmbx import files

    files._umask.cache_clear()
    (tmp_path / "install").mkdir()
    (tmp_path / "install").chmod(mode)
    Install(root=str(tmp_path / "install"), origin="test").share()
    write_atomic(tmp_path / "install" / "folder" / "file", "text")
    files._umask.cache_clear()
    assert stat.S_IMODE((tmp_path / "install" / "folder" / "file").stat().st_mode) == expected
    assert stat.S_IMODE((tmp_path / "install" / "folder").stat().st_mode) & 0o777 == expected | 0o111


def test_a_missing_install_leaves_the_umask_alone(umask: None, tmp_path: Path) -> None:
    Install(root=str(tmp_path / "none"), origin="test").share()
    assert os.umask(0o022) == 0o022


def test_a_result_that_cannot_be_recorded_is_computed_each_time(
    run_factory: RunFactory, plugins: Plugins, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`owns` stands for the folder of another user."""
    run = run_factory.put([8.0] * 50, record={"user": current_user()})
    (run.path / "result.json").unlink()
    end = {"exit_code": 0, "started": 1.0, "ended": 2.0, "job_id": "7", "host": "h"}
    job = {"launcher": "local", "job_id": "4194305-0", "submitted": 1.0}
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, "job": job}))
    (run.path / "exit.json").write_text(json.dumps(end))
    for module in (assess, finalize, remeasure):
        monkeypatch.setattr(module, "owns", lambda run: False)
    for _ in range(2):
        (row,) = listed()
        assert row["status"] == "unknown" and "has ended (failed)" in row["cause"]
    assert not (run.path / "result.json").exists()
    for module in (assess, finalize, remeasure):
        monkeypatch.setattr(module, "owns", lambda run: True)
    assert listed()[0]["status"] == "failed" and (run.path / "result.json").exists()


def test_runs_can_go_elsewhere_if_the_install_cannot_be_written(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "install", tmp_path / "elsewhere"
    root.mkdir()
    before = root.stat().st_mtime_ns
    install = Install(root=str(root), origin="test", workload_root=str(elsewhere), workload_origin="--output")
    install.ensure()
    assert elsewhere.is_dir() and root.stat().st_mtime_ns == before
    assert install.experiments("line") == elsewhere / "experiments"
    (elsewhere / "file").touch()
    wrong = install.replace(workload_root=str(elsewhere / "file"))
    with pytest.raises(UsageError, match=r"cannot create .*file \(--output\): .*file is a file; set --output"):
        wrong.ensure()
