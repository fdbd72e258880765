"""Archives that llmbx did not write are refused in one line, without being unpacked to the disk."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from llmbx.api import UsageError
from llmbx_accept.archive.container import header, pack, unpack

FILES = {"b/x.txt": b"one", "a.json": b"{}", "empty": b""}


def packed(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    pack(target, files)
    return target.getvalue()


def tar(*members: tarfile.TarInfo, kind: int = tarfile.PAX_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=kind) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return target.getvalue()


def member(name: str, **changes: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in changes.items():
        setattr(info, key, value)
    return info


def raw(*blocks: bytes) -> bytes:
    return gzip.compress(b"".join(blocks) + bytes(1024), mtime=0)


def test_the_same_files_give_the_same_bytes_and_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(packed(FILES))
    assert unpack(path) == FILES
    assert packed(dict(reversed(FILES.items()))) == path.read_bytes()
    with tarfile.open(path) as archive:
        assert archive.getnames() == sorted(FILES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"text", "not an archive"),
        (gzip.compress(b"text"), "damaged"),
        (packed(FILES)[:-20], "damaged"),
        (tar(member("x", type=tarfile.SYMTYPE, linkname="/etc/passwd")), "not a regular file"),
        (tar(member("x", type=tarfile.LNKTYPE, linkname="y")), "not a regular file"),
        (tar(member("x", type=tarfile.CHRTYPE, devmajor=1)), "not a regular file"),
        (tar(member("x", type=tarfile.FIFOTYPE)), "not a regular file"),
        (tar(member("x", type=tarfile.DIRTYPE)), "not a regular file"),
        (tar(member("../x")), "leaves the archive"),
        (tar(member("/x")), "leaves the archive"),
        (tar(member("a/../../x")), "leaves the archive"),
        (tar(member("n" * 300)), "not a regular file"),
        (tar(member("x"), member("x"), kind=tarfile.USTAR_FORMAT), "twice"),
        (tar(member("x", mtime=1), kind=tarfile.USTAR_FORMAT), "header"),
        (tar(member("x", uid=1000), kind=tarfile.USTAR_FORMAT), "header"),
        (raw(header("x", (1 << 31) + 1)), "declares"),
        (raw(header("x", 1 << 30)), "far more than its size"),
        (raw(header("x", 3), b"one" + b"!" * 509), "something between"),
        (gzip.compress(header("x", 0) + bytes(1024) + b"more"), "after its last file"),
    ],
    ids=range(20),
)
def test_what_llmbx_did_not_write_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message) as refused:
        unpack(path)
    assert "\n" not in str(refused.value) and str(refused.value).startswith(str(path))
