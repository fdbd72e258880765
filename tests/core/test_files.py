"""Errors of writing name the file that is in the way."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from llmbx.config.install import Install
from llmbx.errors import InfraError, UsageError
from llmbx.files import disk_errors, free_bytes, write_atomic


@pytest.mark.parametrize("below", ["file", "file/inner"])
def test_a_file_in_the_place_of_a_folder_is_named(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / below / "a.json"
    with pytest.raises(InfraError) as refused:
        write_atomic(path, "x")
    assert str(refused.value) == f"{path} could not be written: {tmp_path}/file is a file, not a folder"
    with pytest.raises(UsageError, match=rf"\(LLMB_INSTALL\): {tmp_path}/file is a file; set LLMB_INSTALL"):
        Install(root=str(tmp_path / below), origin="LLMB_INSTALL").ensure()


def test_a_link_a_pipe_and_a_device_stay_what_they_are(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    write_atomic(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, "through")
    assert os.read(reader, 99) == b"through" and pipe.is_fifo()
    os.close(reader)
    write_atomic(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()


def test_a_folder_in_the_place_of_a_file_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="a could not be written: File exists"), disk_errors("a"):
        tmp_path.mkdir()


def test_free_bytes_are_those_of_the_nearest_folder_and_unknown_rather_than_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []
    real = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: seen.append(path) or real._replace(free=7))
    assert free_bytes(tmp_path / "not" / "yet") == 7
    assert seen == [tmp_path]

    def refuse(path: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(shutil, "disk_usage", refuse)
    assert free_bytes(tmp_path) is None
