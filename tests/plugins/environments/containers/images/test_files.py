"""Verification of image files by their headers, stamps, `images.lock`, and the check of free disk space."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.errors import InfraError, UsageError
from llmbx.model import ImageRequest
from llmbx_environments.containers.images import verify
from llmbx_environments.containers.images.store import DOCKER, ImageStore, Stamp
from llmbx_environments.containers.runtimes.pyxis import PyxisRuntime
from llmbx_environments.space import require_space

ONE, TWO = (f"sha256:{digit * 64}" for digit in "12")


def squashfs(used: int, actual: int, magic: bytes = b"hsqs", version: tuple[int, int] = (4, 0)) -> bytes:
    """A file of `actual` bytes whose superblock has the size `used`."""
    head = bytearray(96)
    head[:4] = magic
    struct.pack_into("<HH", head, 28, *version)
    struct.pack_into("<Q", head, 40, used)
    return bytes(head).ljust(actual, b"\0")[:actual]


def sif(end: int, actual: int, used: int = 3) -> bytes:
    """A file of `actual` bytes with a SIF header whose data ends at `end`."""
    head = bytearray(128)
    head[32:41] = b"SIF_MAGIC"
    struct.pack_into("<6q", head, 80, 48 - used, 48, 128, 0, 128, end - 128)
    return bytes(head).ljust(actual, b"\0")[:actual]


@given(st.integers(96, 5000), st.integers(1, 5000))
def test_a_squashfs_file_is_whole_when_it_has_all_its_bytes(used: int, actual: int) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"llmbx-test-{os.getpid()}.sqsh"
    path.write_bytes(squashfs(used, actual))
    try:
        assert (verify.problem(path) is None) == (actual >= used)
    finally:
        path.unlink()


@given(st.integers(129, 5000), st.integers(1, 5000))
def test_a_sif_file_is_whole_when_it_has_all_its_bytes(end: int, actual: int) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"llmbx-test-{os.getpid()}.sif"
    path.write_bytes(sif(end, actual))
    try:
        assert (verify.problem(path) is None) == (actual >= end)
    finally:
        path.unlink()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.sqsh", b"", "empty"),
        ("a.sqsh", squashfs(100, 200, magic=b"sqsh"), "not a squashfs file"),
        ("a.sqsh", squashfs(100, 200, version=(3, 1)), "version is 3.1"),
        ("a.sqsh", squashfs(300, 200), "truncated: 200 of the 300 bytes"),
        ("a.sif", b"#!/bin/sh\n" * 20, "not a SIF file"),
        ("a.sif", sif(300, 400, used=0), "empty SIF file"),
        ("a.tar", b"x" * 2000, "not a complete tar file"),
    ],
)
def test_a_file_that_is_not_whole_is_named_with_the_reason(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InfraError, match=words):
        verify.require_intact(tmp_path / name)


def test_a_tar_file_that_docker_did_not_save_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(__file__, "file")
    assert "manifest.json" in str(verify.problem(tmp_path / "a.tar"))


def test_a_squashfs_file_of_the_users_is_hashed_once_and_its_change_is_noticed(tmp_path: Path) -> None:
    file, install = tmp_path / "mine.sqsh", tmp_path / "install"
    file.write_bytes(squashfs(200, 4096))
    request = ImageRequest(reference=str(file))
    said: list[str] = []
    image = PyxisRuntime().prepare(request, install, said.append)
    assert image.digest == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}" and len(said) == 1
    assert PyxisRuntime().prepare(request, install, said.append) == image and len(said) == 1
    os.utime(file)
    assert PyxisRuntime().prepare(request, install, said.append) == image and len(said) == 2
    file.write_bytes(squashfs(201, 4096))
    with pytest.raises(InfraError, match="changed: first seen") as stopped:
        PyxisRuntime().prepare(request, install, said.append)
    assert str(image.digest) in str(stopped.value)
    accepted = PyxisRuntime().prepare(request.replace(accept_change=True), install, said.append)
    assert accepted.digest != image.digest
    assert PyxisRuntime().prepare(request, install, said.append) == accepted


def test_a_stamp_fits_only_its_own_file(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    file = store.folder / "a.sif"
    file.parent.mkdir()
    file.write_bytes(b"1234")
    stamp = Stamp(path=str(file), reference="a", sha256=ONE).of(file)
    store.write_stamp(stamp)
    assert store.current_stamp(file) == stamp
    other = tmp_path / "copy"
    other.write_bytes(b"1234")
    os.utime(other, ns=(stamp.mtime_ns, stamp.mtime_ns))
    other.replace(file)
    assert store.current_stamp(file) is None, "another inode is another file"


def test_the_lock_keeps_the_first_digest_until_a_change_is_accepted(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    store.remember("r/a:1", ONE, {"a.sif": TWO})
    store.check_digest("r/a:1", ONE, accept=False)
    with pytest.raises(InfraError) as stopped:
        store.check_digest("r/a:1", TWO, accept=False)
    assert ONE in str(stopped.value) and TWO in str(stopped.value) and "--accept-image-change" in str(stopped.value)
    store.check_digest("r/a:1", TWO, accept=True)
    store.remember("r/a:1", ONE, {DOCKER: ONE})
    assert store.lock().images["r/a:1"].files == {"a.sif": TWO, DOCKER: ONE}
    store.remember("r/a:1", TWO, {"b.sif": ONE})
    entry = store.lock().images["r/a:1"]
    assert (entry.digest, entry.files) == (TWO, {"b.sif": ONE}), "files of the old digest are forgotten"
    store.remember("r/a:1", None, {"b.sif": TWO})
    assert store.lock().images["r/a:1"].digest is None, "of an unknown file no registry's digest is claimed"


def test_a_lock_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    store.remember("r/a:1", ONE, {})
    store.lock_path.write_text(json.dumps({"images": 3}))
    with pytest.raises(UsageError, match=r"images\.lock cannot be read"):
        store.lock()


def test_room_is_demanded_before_an_import(tmp_path: Path) -> None:
    need = "image x: the import needs about 1000.0 TB"
    require_space(tmp_path / "not" / "there" / "yet", 1, need)
    with pytest.raises(InfraError, match=r"image x: the import needs about 1000\.0 TB in .* are free"):
        require_space(tmp_path, 10**15, need)
