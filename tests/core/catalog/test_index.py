"""A listing reads no rows as long as the catalog has not changed, and shows every change at once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from llmbx.catalog import index, workloads
from llmbx.errors import UsageError
from llmbx.model import Workload

LINE = Path(__file__).parents[2] / "fixtures/toy/src/llmbx_toy/line.toml"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "catalog").mkdir()
    shutil.copy(LINE, tmp_path / "catalog/line.toml")
    return tmp_path


def listed(root: Path) -> Workload:
    with index.listing():
        (workload,) = workloads.load_workloads(root, ["line"])
    return workload


def test_a_second_listing_reads_no_catalog(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = listed(root)
    monkeypatch.setattr(workloads, "load_workload", lambda *_: pytest.fail("the catalog was read again"))
    assert listed(root) == first


def test_a_listing_has_all_sizes_dtypes_gpu_types_and_scales_of_the_rows(root: Path) -> None:
    (whole,) = workloads.load_workloads(root, ["line"])
    for size in whole.sizes:
        rows = [row for _, row in workloads.rows_of(whole, size)]
        shown = [row for _, row in workloads.rows_of(listed(root), size)]
        for name in ("dtypes", "gpu_types", "gpus"):
            assert {text for row in shown for text in getattr(row, name)} == {
                text for row in rows for text in getattr(row, name)
            }


def test_a_changed_file_is_read_again_even_with_its_old_time_and_size(root: Path) -> None:
    before, file = listed(root), root / "catalog/line.toml"
    status, text = file.stat(), file.read_text()
    file.write_text(text.replace(before.title, before.title.swapcase(), 1))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_size == status.st_size
    assert listed(root).title == before.title.swapcase()


def test_an_invalid_file_is_refused_although_the_one_before_is_kept(root: Path) -> None:
    listed(root)
    (root / "catalog/line.toml").write_text("name = 1")
    with pytest.raises(UsageError, match=r"line\.toml: at name: expected a text"):
        listed(root)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_index_is_made_again(root: Path, content: bytes) -> None:
    first = listed(root)
    (file,) = (root / "cache/llmbx/catalog").iterdir()
    file.write_bytes(content)
    assert listed(root) == first
    assert file.read_bytes() != content


def test_without_a_folder_for_caches_the_catalog_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "no-folder").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "no-folder"))
    assert listed(root).name == "line"


def test_outside_of_a_listing_all_rows_are_there(root: Path) -> None:
    listed(root)
    (workload,) = workloads.load_workloads(root, ["line"])
    assert workload == workloads.load_workload(root / "catalog/line.toml")
