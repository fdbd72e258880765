"""A bundle from elsewhere: a hostile one is refused with one line, and one that fails leaves nothing."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import InfraError, LlmbxError, UsageError
from llmbx_environments import archives
from llmbx_environments.bundle import staging
from llmbx_environments.bundle.manifest import NAME
from llmbx_environments.bundle.unpack import import_bundle

from ....integration.environments.toy import make_wheel

HUB = ".cache/huggingface/hub"
Edit = Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]


def quiet(line: str) -> None:
    """Ignore progress messages."""


def facts(path: str, content: bytes, **other: object) -> dict[str, object]:
    return {"path": path, "sha256": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content), **other}


def pack(bundle: Path, files: dict[str, bytes], edit: Edit = lambda members: None, **changed: object) -> None:
    """Write a bundle of `files`; `changed` are fields of the last one in the manifest, `edit` changes the tar file."""
    listed = [facts(path, content) for path, content in files.items()]
    listed[-1] |= changed
    members = []
    for name, content in {NAME: json.dumps({"members": listed}).encode(), **files}.items():
        info = tarfile.TarInfo(name)
        info.size = len(content)
        members.append((info, content))
    edit(members)
    with tarfile.open(bundle, "w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def link(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members[-1][0].type, members[-1][0].linkname = tarfile.SYMTYPE, "/etc/passwd"


def sparse(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members[-1][0].pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(1 << 40)}


def more(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.append((tarfile.TarInfo("images/extra.sif"), b""))


def fewer(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.pop()


def twice(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.append(members[-1])


def many(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.extend((tarfile.TarInfo(f"{HUB}/{number}"), b"") for number in range(120))


@pytest.mark.parametrize(
    ("edit", "changed", "error", "said"),
    [
        (link, {}, UsageError, "is a symbolic link; only regular files are accepted"),
        (sparse, {}, UsageError, "it has a sparse file"),
        (more, {}, UsageError, "'images/extra.sif' is not in its manifest"),
        (twice, {}, UsageError, f"it has '{HUB}/b' twice"),
        (many, {}, UsageError, "it has more than 100 members"),
        (fewer, {}, InfraError, f"is incomplete: {HUB}/b is missing"),
        (quiet, {"size": 1 << 40}, UsageError, "has 5 bytes, and the manifest declares 1,099,511,627,776"),
        (quiet, {"sha256": f"sha256:{'0' * 64}"}, InfraError, f"is damaged: {HUB}/b"),
        (quiet, {"sha256": "none"}, UsageError, f"no valid sha256 of {HUB}/b"),
    ],
)
def test_a_bundle_with_anything_else_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: Edit, changed: dict[str, object], error: type[LlmbxError],
    said: str,
) -> None:  # fmt: skip
    """The first file is whole: it must not be in place when the second one is refused."""
    monkeypatch.setattr(archives, "MOST_MEMBERS", 100)
    pack(tmp_path / "bad.bundle", {f"{HUB}/a": b"whole", f"{HUB}/b": b"12345"}, edit, **changed)
    other = tmp_path / "other"
    with pytest.raises(error) as caught:
        import_bundle(tmp_path / "bad.bundle", other, False, quiet)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert files_in(other) == []


@pytest.mark.parametrize(
    "path",
    [
        "images/images.lock", "images/.stamps/x.json", "images/a/b.sif", "images/a.tar", "docker/a.sif", "venvs/x",
        "wheels/pip.conf", "wheels/.x/a-1-py3-none-any.whl", "./wheels/a.whl", f"{HUB}/../../token", f"{HUB}//a",
        "images/a\x1b[2J.sif",
    ],
)  # fmt: skip
def test_a_path_that_no_export_writes_is_refused(tmp_path: Path, path: str) -> None:
    pack(tmp_path / "bad.bundle", {path: b""})
    with pytest.raises(UsageError) as caught:
        import_bundle(tmp_path / "bad.bundle", tmp_path / "other", False, quiet)
    assert "\x1b" not in str(caught.value) and not (tmp_path / "other").exists()


def test_a_compressed_bundle_is_refused_without_unpacking_it(tmp_path: Path) -> None:
    """42.zip's way: a gigabyte of zeros in a megabyte."""
    bundle = tmp_path / "bomb.bundle"
    with gzip.open(bundle, "wb") as file:
        for _ in range(256):
            file.write(bytes(1 << 20))
    with pytest.raises(UsageError, match="is compressed: a bundle of `llmbx image export` is a plain tar file"):
        import_bundle(bundle, tmp_path / "other", False, quiet)


def test_a_manifest_beyond_reason_is_not_read(tmp_path: Path) -> None:
    """The file is sparse on disk: its manifest declares 16 GiB, and has them."""
    info = tarfile.TarInfo(NAME)
    info.size = 1 << 34
    bundle = tmp_path / "bomb.bundle"
    with bundle.open("wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.truncate(info.size + 2048)
    with pytest.raises(UsageError, match="its manifest has 17,179,869,184 bytes"):
        import_bundle(bundle, tmp_path / "other", False, quiet)


def test_what_is_inside_a_file_is_checked_too(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "a")
    content = wheel.read_bytes()
    hostile = content.replace(b"a.py", b"/.py")
    for name, bad, said in (
        ("wheels/a-1.0-py3-none-any.whl", hostile, "leaves the archive"),
        ("wheels/a-1.0-py3-none-any.whl", content[:-30], "it is damaged"),
        ("images/a.sif", b"no image", "it is not a SIF file"),
        ("images/a.sqsh", b"", "it is empty"),
        ("docker/a.tar", gzip.compress(content), "a.tar: "),
    ):
        pack(tmp_path / "bad.bundle", {f"{HUB}/a": b"whole", name: bad})
        with pytest.raises(UsageError) as caught:
            import_bundle(tmp_path / "bad.bundle", tmp_path / "other", False, quiet)
        assert "was refused" in str(caught.value) and said in str(caught.value)
        assert files_in(tmp_path / "other") == []
    pack(tmp_path / "good.bundle", {"wheels/a-1.0-py3-none-any.whl": content})
    import_bundle(tmp_path / "good.bundle", tmp_path / "other", False, quiet)
    assert (tmp_path / "other/wheels/a-1.0-py3-none-any.whl").read_bytes() == content
    assert not list((tmp_path / "other").rglob("*partial*"))


def test_a_move_that_fails_puts_everything_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    (other / HUB).mkdir(parents=True)
    (other / HUB / "a").write_text("before")
    before = files_in(other)
    pack(tmp_path / "good.bundle", {f"{HUB}/a": b"after", f"{HUB}/new/b": b"b", f"{HUB}/c": b"c"})
    real = staging.bring

    def bring(path: Path, target: Path) -> None:
        if "-c.partial" in target.name:
            raise OSError(28, "No space left on device")
        real(path, target)

    monkeypatch.setattr(staging, "bring", bring)
    with pytest.raises(InfraError, match="the disk is full"):
        import_bundle(tmp_path / "good.bundle", other, False, quiet)
    assert (other / HUB / "a").read_text() == "before" and files_in(other) == before
    monkeypatch.undo()
    import_bundle(tmp_path / "good.bundle", other, False, quiet)
    assert (other / HUB / "a").read_text() == "after" and (other / HUB / "new/b").read_text() == "b"


def test_another_file_system_under_a_folder_of_the_install_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(self: Path, target: Path) -> Path:
        if ".import.partial" in str(self):
            raise OSError(18, os.strerror(18))
        self.rename(target)
        return target

    monkeypatch.setattr(Path, "replace", replace)
    pack(tmp_path / "good.bundle", {f"{HUB}/a": b"content"})
    import_bundle(tmp_path / "good.bundle", tmp_path / "other", False, quiet)
    assert (tmp_path / "other" / HUB / "a").read_bytes() == b"content"
    assert files_in(tmp_path / "other") == [".cache", ".cache/huggingface", HUB, f"{HUB}/a"]
