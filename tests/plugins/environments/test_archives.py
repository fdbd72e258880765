"""Archives from elsewhere: hostile ones are refused in bounded time and memory, whatever they declare."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.errors import UsageError
from llmbx_environments import archives
from llmbx_environments.archives import ANY_RATIO, LARGEST_HEADER, package_problem, path_problem, tar_members

UNPACKED = 1 << 28
"""Bytes that the bombs below unpack to."""
MEMORY = 24 << 20
"""Bytes that a check may have at the same time."""
FEW = 1000
"""The number of members that a test with many of them allows."""


def tar(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    file.seek(0)
    return file


def member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size, kind, link
    return info


def header(name: str, size: int, kind: bytes = b"0") -> bytes:
    """One header without a limit on what it declares."""
    return member(name, size, kind).tobuf(tarfile.GNU_FORMAT)


def test_the_files_of_a_tar_file_are_found_where_python_finds_them() -> None:
    """Names beyond 100 characters, in other alphabets, and times that need an extended header."""
    names = ["a", "folder/b", f"long/{'x' * 90}/{'y' * 150}", "größe/ラベル", "z" * 255]
    contents = [os.urandom(size) for size in (0, 1, 512, 513, 70_000)]
    for style in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=style) as archive:
            for name, content in zip(names, contents, strict=True):
                info = member(name, len(content))
                info.mtime = 1234567.89 if style == tarfile.PAX_FORMAT else 1234567
                archive.addfile(info, io.BytesIO(content))
        file.seek(0)
        found = list(tar_members(file))
        assert [one.path for one in found] == names
        assert [file.getvalue()[one.offset : one.offset + one.size] for one in found] == contents


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (member("a", kind=tarfile.SYMTYPE, link="/etc/passwd"), "'a' is a symbolic link"),
        (member("a", kind=tarfile.LNKTYPE, link="b"), "'a' is a hard link"),
        (member("a", kind=tarfile.CHRTYPE), "'a' is a device"),
        (member("a", kind=tarfile.FIFOTYPE), "'a' is a FIFO"),
        (member("a", kind=tarfile.DIRTYPE), "'a' is a folder"),
        (member("a", kind=tarfile.GNUTYPE_SPARSE), "'a' is a sparse file"),
        (member("a", kind=b"V"), "of an unknown kind"),
        (member("/etc/cron.d/x"), "leaves the archive"),
        (member("a/../../x"), "leaves the archive"),
        (member("a\x1b[2Jb"), "control character"),
    ],
)
def test_only_regular_files_inside_are_accepted(info: tarfile.TarInfo, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        list(tar_members(tar((info, b""))))
    assert said in str(caught.value) and "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_a_sparse_file_in_pax_headers_is_refused() -> None:
    """`tar --sparse` writes GNU.sparse keys: a terabyte declared, nothing stored."""
    info = member("big")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.realsize": str(1 << 40)}
    with pytest.raises(UsageError, match="sparse"):
        list(tar_members(tar((info, b""))))


def test_links_are_followed_only_inside() -> None:
    inside = tar((member("a/b", kind=tarfile.SYMTYPE, link="../c"), b""), (member("c"), b""))
    assert [one.path for one in tar_members(inside, links=True)] == ["c"]
    outside = tar((member("a/b", kind=tarfile.SYMTYPE, link="../../c"), b""))
    with pytest.raises(UsageError, match=r"is a link, and the path .* leaves the archive"):
        list(tar_members(outside, links=True))


SIZE_FOR_HEADER = header("a", 19, b"x") + b"19 size=9999999999\n".ljust(512, b"\0") + header("b", 5, b"L")
"""A size for the next file, before a long name: the name is not as long as that."""


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (header("a", 1 << 40), tarfile.ReadError, "unexpected end of data"),
        (header("a", LARGEST_HEADER + 1, b"L"), UsageError, "an extended header of 65,537 bytes"),
        (SIZE_FOR_HEADER, tarfile.ReadError, "unexpected end of data"),
        (header("a", 1 << 40, b"x"), UsageError, "an extended header of"),
        (header("a", 9, b"x") + b"99 path=a".ljust(512, b"\0"), tarfile.ReadError, "invalid extended header"),
        (header("a", 14, b"x") + b"14 size=-1234\n".ljust(512, b"\0"), tarfile.ReadError, "invalid size"),
        (header("a", 5) + b"12345".ljust(512, b"\0") + header("a", 0), UsageError, "'a' twice"),
        (b"something else", tarfile.TarError, "truncated header"),
    ],
)
def test_a_lie_about_a_size_is_found_without_reading_it(content: bytes, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        list(tar_members(io.BytesIO(content)))


def write_with_zeros(path: Path, start: bytes) -> None:
    """Write `start` and `UNPACKED` zeros; a compressed file may consist of several, so one mebibyte is compressed."""
    path.write_bytes(gzip.compress(start) + (UNPACKED >> 20) * gzip.compress(bytes(1 << 20)))


def bomb_of_zeros(path: Path) -> None:
    """One file of zeros, a thousand times larger than the archive."""
    write_with_zeros(path, header("zeros", UNPACKED))


def many_members(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for number in range(FEW + 10):
            file.write(header(f"{number}", 0))


def long_name(path: Path) -> None:
    """A very long extended header, which `tarfile` would read at once."""
    write_with_zeros(path, header("name", UNPACKED, b"L"))


def zip_of_zeros(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("zeros", "w") as file:
        for _ in range(UNPACKED >> 20):
            file.write(bytes(1 << 20))


def zip_that_lies(path: Path) -> None:
    """A member that declares 10 bytes and has many more: the directory's size and the local header's are changed."""
    zip_of_zeros(path)
    content = bytearray(path.read_bytes())
    directory = content.rfind(b"PK\x01\x02")
    struct.pack_into("<I", content, directory + 24, 10)
    path.write_bytes(content)


def zip_that_overlaps(path: Path) -> None:
    """Two entries in the directory that share one compressed stream, as in the bombs of D. Fifield (2019)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", os.urandom(100_000))
        archive.filelist.append(_renamed(archive.getinfo("a"), "b"))


def _renamed(info: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    other = zipfile.ZipInfo(name)
    for key in ("header_offset", "compress_type", "CRC", "compress_size", "file_size", "external_attr"):
        setattr(other, key, getattr(info, key))
    return other


def zip_with_link(path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, "/etc/passwd")


def zip_with_path(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../../outside.py", "")


def zip_with_many(path: Path) -> None:
    """More members than allowed, in a directory that needs no zip64."""
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(FEW + 1):
            archive.writestr(zipfile.ZipInfo(f"{number:x}"), "")


def zip64(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "")
    content = path.read_bytes()
    end = content.rfind(b"PK\x05\x06")
    record = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, 1 << 40, 0)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    path.write_bytes(content[:end] + record + locator + content[end:])


def nothing(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("make", "name", "said"),
    [
        (bomb_of_zeros, "a-1.0.tar.gz", f"unpacks to more than {ANY_RATIO:,} bytes"),
        (many_members, "a-1.0.tar.gz", f"more than {FEW:,} members"),
        (long_name, "a-1.0.tar.gz", f"an extended header of {UNPACKED:,} bytes"),
        (zip_of_zeros, "a-1.0-py3-none-any.whl", f"it unpacks to {UNPACKED:,} bytes"),
        (zip_that_lies, "a-1.0-py3-none-any.whl", "'zeros' declares 10 bytes and has more"),
        (zip_that_overlaps, "a-1.0-py3-none-any.whl", "its members overlap"),
        (zip_with_link, "a-1.0-py3-none-any.whl", "'link' is a link"),
        (zip_with_path, "a-1.0-py3-none-any.whl", "the path '../../outside.py' leaves the archive"),
        (zip_with_many, "a-1.0-py3-none-any.whl", f"more than {FEW:,} members"),
        (zip64, "a-1.0-py3-none-any.whl", "zip64"),
        (nothing, "a-1.0-py3-none-any.whl", "it is damaged: it has no end record"),
        (nothing, "a-1.0.zip", "it is damaged"),
        (lambda path: path.write_bytes(b"\x1f\x8b\x08"), "a-1.0.tar.gz", "it is damaged"),
    ],
)
def test_a_bomb_is_refused_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], name: str, said: str
) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", FEW)
    path = tmp_path / name
    make(path)
    tracemalloc.start()
    try:
        problem = package_problem(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert problem is not None and said in problem and "\n" not in problem
    assert peak < MEMORY


def test_a_package_as_builders_write_it_is_accepted(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/__init__.py", "x = 1\n" * 1000)
        archive.writestr("a/empty/", "")
        archive.writestr("a-1.0.dist-info/RECORD", "")
    assert package_problem(wheel) is None
    source = tmp_path / "a-1.0.tar.gz"
    with tarfile.open(source, "w:gz") as packed:
        packed.addfile(member("a-1.0", kind=tarfile.DIRTYPE))
        packed.addfile(member("a-1.0/setup.py", 5), io.BytesIO(b"hello"))
    assert package_problem(source) is None


@pytest.mark.parametrize(
    ("path", "bad"), [("a/b.txt", False), ("..a/b", False), ("", True), ("a/..", True), ("a\\b", True)]
)
def test_a_path_stays_inside(path: str, bad: bool) -> None:
    assert (path_problem(path) is not None) is bad


def test_names_have_a_limit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long names pack well: without a limit, a small archive would fill the memory with them."""
    monkeypatch.setattr(archives, "LARGEST_DIRECTORY", 10_000)
    few = [(member(f"{number}{'x' * 4000}"), b"") for number in range(2)]
    assert len(list(tar_members(tar(*few)))) == 2
    with pytest.raises(UsageError, match="names of over 10,000 bytes"):
        list(tar_members(tar(*few, (member("y" * 4000), b""))))
