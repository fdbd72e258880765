"""`RunFolder.write_once`: of all who write a file, one gives it its name, completely, and nobody replaces it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx.run_files import RunFolder

NAME = "result.json"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "run").mkdir()
    return RunFolder(path=tmp_path / "run")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_first_writer_wins_and_a_later_one_hears_of_it(folder: RunFolder) -> None:
    assert folder.write_once(NAME, "first") and not folder.write_once(NAME, "second")
    assert folder.read(NAME) == b"first" and names(folder.path) == [NAME]


def test_of_writers_at_once_one_wins_and_the_file_is_whole(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """All have written their content before the first gives it the name."""
    together, link = threading.Barrier(4), os.link

    def wait_and_link(*arguments: str, **options: int) -> None:
        together.wait(60)
        link(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", wait_and_link)
    contents = [f"{number}" * 100_000 for number in range(4)]
    with ThreadPoolExecutor(4) as writers:
        won = [*writers.map(lambda content: folder.write_once(NAME, content), contents)]
    assert sorted(won) == [False, False, False, True]
    assert folder.read(NAME).decode() == contents[won.index(True)]
    assert names(folder.path) == [NAME]


def test_a_file_has_its_name_only_when_its_content_is_on_the_disk(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader, or a power failure, at any moment finds the whole file or none."""
    steps: list[str] = []
    sync, link = os.fsync, os.link

    def synced(fd: int) -> None:
        assert os.fstat(fd).st_size == 7
        steps.append("synced")
        sync(fd)

    def linked(*arguments: str, **options: int) -> None:
        steps.append("named")
        link(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    assert folder.write_once(NAME, "content")
    assert steps == ["synced", "named"]


def test_a_full_disk_leaves_no_file_and_a_later_writer_succeeds(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InfraError, match=r"the disk is full: .*result\.json could not be written"):
            folder.write_once(NAME, "lost")
    assert names(folder.path) == []
    assert folder.write_once(NAME, "kept") and folder.read(NAME) == b"kept"


def test_a_written_file_has_one_name(folder: RunFolder) -> None:
    """Files with several names are left alone where secrets are masked: one name may be outside of the folder."""
    folder.write_once(NAME, "content")
    assert (folder.path / NAME).stat().st_nlink == 1


TAKEN: tuple[Callable[[Path], object], ...] = (
    lambda place: place.symlink_to("nowhere"),
    lambda place: place.symlink_to("../private"),
    os.mkfifo,
    Path.mkdir,
)


@pytest.mark.parametrize("put", TAKEN)
def test_whatever_has_the_name_stays_and_is_not_written_through(
    put: Callable[[Path], object], folder: RunFolder, tmp_path: Path
) -> None:
    (tmp_path / "private").write_text("private")
    place = folder.path / NAME
    put(place)
    before = place.lstat()
    assert not folder.write_once(NAME, "changed")
    assert place.lstat().st_ino == before.st_ino and place.lstat().st_mode == before.st_mode
    assert names(folder.path) == [NAME] and names(tmp_path) == ["private", "run"]
    assert (tmp_path / "private").read_text() == "private"


def test_a_folder_on_the_way_may_not_be_a_link(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (folder.path / "attempts").symlink_to(tmp_path / "outside")
    with pytest.raises(InfraError, match="attempts is a link"):
        folder.write_once(f"attempts/{NAME}", "changed")
    assert names(tmp_path / "outside") == []
