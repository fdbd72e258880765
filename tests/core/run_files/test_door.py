"""What may be opened in a run folder, and what is refused, in one line that says why."""

from __future__ import annotations

import os
import socket
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import InfraError
from llmbx.run_files import LARGEST_RECORD, LONGEST_LINE, RunFile, RunFolder, door

STRANGER, OTHER = 61_901, 61_902
"""Users who own nothing else."""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "run").mkdir()
    return RunFolder(path=tmp_path / "run")


def device(place: Path) -> None:
    os.mknod(place, 0o20666, os.makedev(1, 5))


def bound(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))


HOSTILE: tuple[tuple[Callable[[Path], object], str], ...] = (
    (lambda place: place.symlink_to("/dev/zero"), "it is a link, which is not followed inside a run folder"),
    (lambda place: place.symlink_to("/nowhere"), "it is a link, which is not followed inside a run folder"),
    (os.mkfifo, "it is a pipe"),
    (Path.mkdir, "it is a folder"),
    (bound, "it is a socket"),
    (device, "it is a device"),
)


@pytest.mark.parametrize(("put", "says"), HOSTILE)
def test_only_regular_files_are_opened(put: Callable[[Path], object], says: str, folder: RunFolder) -> None:
    put(folder.path / "a.json")
    for read in (folder.file("a.json").open, folder.file("a.json").read, lambda: [*folder.file("a.json").lines()]):
        with pytest.raises(OSError, match=says) as refused:
            read()
        assert refused.value.filename == str(folder.path / "a.json")
    file = folder.file("a.json")
    assert file.exists() and not file.is_file()


def test_a_name_with_a_null_character_is_refused_in_a_line(folder: RunFolder) -> None:
    file = folder.file("a\0.json")
    for read in (file.open, file.read, lambda: [*file.lines()]):
        with pytest.raises(OSError, match="its name has a null character"):
            read()
    assert not file.exists()


def test_a_folder_on_the_way_may_not_be_a_link_and_a_name_may_not_lead_out(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a").write_text("private")
    (folder.path / "configs").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="configs is a link"):
        folder.read("configs/a")
    for name in ("../outside/a", f"{tmp_path}/outside/a", "x/../../outside/a"):
        with pytest.raises(OSError, match=r"leads out of the folder|No such file"):
            folder.read(name)
    assert not folder.file("configs/a").exists()
    with pytest.raises(InfraError, match="configs is a link"):
        folder.write("configs/a", "changed")
    assert (tmp_path / "outside/a").read_text() == "private"


def test_links_above_are_followed_if_they_are_the_users_or_roots(folder: RunFolder, tmp_path: Path) -> None:
    (folder.path / "a").write_text("text")
    (tmp_path / "link").symlink_to("run")
    (tmp_path / "again").symlink_to(tmp_path / "link")
    assert RunFolder(path=tmp_path / "again").read("a") == b"text"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        RunFolder(path=tmp_path / "loop").read("a")


def as_root() -> None:
    if os.geteuid() != 0:
        assert not os.environ.get("CI"), "CI runs as root: this test must not be left out there"
        pytest.skip("giving files to another user needs root")


def test_a_link_of_a_stranger_above_is_refused(folder: RunFolder, tmp_path: Path) -> None:
    as_root()
    (folder.path / "a").write_text("text")
    (tmp_path / "link").symlink_to("run")
    os.chown(tmp_path / "link", STRANGER, -1, follow_symlinks=False)
    with pytest.raises(PermissionError, match=f"link above it is a link of user {STRANGER}"):
        RunFolder(path=tmp_path / "link").read("a")


def test_a_file_must_belong_to_the_folders_owner_the_user_or_root(folder: RunFolder) -> None:
    as_root()
    place = folder.path / "a"
    place.write_text("text")
    os.chown(folder.path, STRANGER, -1)
    for owner in (STRANGER, os.geteuid()):
        os.chown(place, owner, -1)
        assert folder.read("a") == b"text"
    os.chown(place, OTHER, -1)
    with pytest.raises(PermissionError, match=f"it belongs to user {OTHER}, not to the folder's owner"):
        folder.read("a")
    assert not folder.own and folder.owner == str(STRANGER)


def test_a_hard_link_of_a_stranger_to_a_file_of_the_reader_is_refused(folder: RunFolder, tmp_path: Path) -> None:
    as_root()
    (tmp_path / "private").write_text("private")
    (folder.path / "a").hardlink_to(tmp_path / "private")
    assert folder.read("a") == b"private", "a copy with hard links (`cp -l`) of the user's own run"
    os.chown(folder.path, STRANGER, -1)
    with pytest.raises(PermissionError, match="it is a hard link to a file of user"):
        folder.read("a")


def test_a_record_beyond_the_limit_is_refused_without_being_read(folder: RunFolder) -> None:
    path = folder.path / "run.json"
    with path.open("wb") as file:
        file.truncate(1 << 31)  # a sparse file: 2 GiB that take no space
    tracemalloc.start()
    with pytest.raises(OSError, match="it is larger than 16 MiB"):
        folder.read("run.json")
    assert tracemalloc.get_traced_memory()[1] < 4 * LARGEST_RECORD
    tracemalloc.stop()
    path.write_bytes(b"{}")
    assert folder.read("run.json") == b"{}"


def test_a_hole_that_would_take_days_to_read_is_refused(folder: RunFolder) -> None:
    with (folder.path / "log.out").open("wb") as file:
        file.write(b"a line\n")
        file.truncate(1 << 42)
    with pytest.raises(OSError, match=r"\d+ GiB of it are a hole"):
        folder.file("log.out").open()


def test_long_lines_are_cut_and_the_next_line_is_read(folder: RunFolder) -> None:
    (folder.path / "sbatch.out").write_bytes(b"first\r\n" + b"x" * (3 * LONGEST_LINE) + b"\nlast")
    assert [*folder.file("sbatch.out").lines()] == [b"first", b"x" * LONGEST_LINE, b"last"]


def test_searches_find_files_and_follow_no_link(folder: RunFolder, tmp_path: Path) -> None:
    for name in ("a.out", "b.txt", "x/a.out", "x/y/a.out"):
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).write_text(name)
    (folder.path / "c.out").symlink_to("/etc/passwd")
    (folder.path / "all").symlink_to("/")
    (folder.path / "x/again").symlink_to(folder.path)
    found = {pattern: [file.file for file in folder.glob(pattern)] for pattern in ("*.out", "x/*.out", "**/*.out")}
    assert found == {"*.out": ["a.out"], "x/*.out": ["x/a.out"], "**/*.out": ["a.out", "x/a.out", "x/y/a.out"]}
    assert sorted(file.file for file in folder.all_files()) == ["a.out", "b.txt", "x/a.out", "x/y/a.out"]
    assert folder.folders() == ["x"] and folder.folders("all") == [] and folder.folders("x") == ["y"]
    assert RunFolder(path=tmp_path / "none").glob("*") == []


def test_writing_replaces_a_link_and_keeps_what_it_leads_to(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("private")
    (folder.path / "tags.json").symlink_to(tmp_path / "private")
    folder.write("tags.json", "[]")
    assert (tmp_path / "private").read_text() == "private" and folder.read("tags.json") == b"[]"
    os.mkfifo(folder.path / "local.json")
    folder.write("configs/deep/final.json", "{}", mode=0o600)
    folder.write("local.json", "{}")
    assert folder.read("local.json") == folder.read("configs/deep/final.json") == b"{}"
    assert stat.S_IMODE((folder.path / "configs/deep/final.json").stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.path.iterdir()) == ["configs", "local.json", "tags.json"], (
        "no temporary file is left"
    )


def test_appending_follows_no_link(folder: RunFolder, tmp_path: Path) -> None:
    for _ in range(2):
        with folder.append("sbatch.out") as file:
            file.write(b"line\n")
    assert folder.read("sbatch.out") == b"line\nline\n"
    (folder.path / "log.out").symlink_to(tmp_path / "private")
    with pytest.raises(OSError, match="symbolic links"):
        folder.append("log.out")


def test_what_is_exchanged_after_the_check_is_not_read(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger exchanges folder and file at the worst moment: after the folder was opened."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private/a").write_text("private")
    (folder.path / "a").write_text("mine")
    checked = door.checked

    def late(where: int, name: str, owner: int) -> int:
        folder.path.rename(tmp_path / "moved")
        folder.path.symlink_to(tmp_path / "private")
        return checked(where, name, owner)

    monkeypatch.setattr(door, "checked", late)
    assert RunFile(folder=folder.path, file="a").read() == b"mine"


def test_only_the_owner_can_write_what_is_written_under_any_umask(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path / "run")
    before = os.umask(0)
    try:
        folder.write("run.sh", "", mode=0o777)
        folder.write_once("configs/result.json", "")
        folder.make_folder("attempts/0")
        folder.append("log.out").close()
    finally:
        os.umask(before)
    modes = {str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    folders = {"run", "run/configs", "run/attempts", "run/attempts/0"}
    files = {"run/configs/result.json": 0o644, "run/log.out": 0o644, "run/run.sh": 0o755}
    assert modes == {**dict.fromkeys(folders, 0o755), **files}
