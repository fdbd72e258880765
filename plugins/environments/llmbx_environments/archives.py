"""Check archives that come from elsewhere before a byte of them is used, in bounded time and memory.

An archive has regular files with relative paths, at most `MOST_MEMBERS` of them, in sizes that it declares truly, and
does not unpack to much more than its own size. Tar headers are those of POSIX (pax) and of the manual of GNU tar, zip
records those of PKWARE's APPNOTE 6.3.
"""

from __future__ import annotations

import gzip
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Protocol

from llmbx.api import UsageError, Value

MOST_MEMBERS = 65_000
LARGEST_HEADER = 1 << 16
"""Largest extended header (a long name) of a tar file, in bytes."""
LARGEST_DIRECTORY = 1 << 24
"""Largest central directory of a zip file, and most bytes in the names of a tar file's members."""
HIGHEST_RATIO = 200
"""An archive of more than `ANY_RATIO` unpacked bytes may have this many times its own size. Wheels have 2 to 10."""
ANY_RATIO = 1 << 26
MOST_BYTES = 1 << 35

DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    NotImplementedError,
    OSError,
)
"""What the libraries raise for content that they cannot read."""

_BLOCK = 512
_CHUNK = 1 << 20
_DIRECTORIES, _REGULAR, _LINKS = b"5", (b"0", b"\0"), (b"1", b"2")
_EXTENDED, _LONG_NAME, _LONG_LINK = (b"x", b"g"), b"L", b"K"
_END_OF_DIRECTORY, _ZIP64 = b"PK\x05\x06", b"PK\x06\x07"


class Stream(Protocol):
    """What is needed of a file."""

    def read(self, count: int, /) -> bytes:
        """At most `count` bytes."""

    def seekable(self) -> bool:
        """Whether `seek` works."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to an offset."""


class TarMember(Value, frozen=True):
    """One regular file of a tar file: its `path`, its `size` in bytes, and the `offset` of its content."""

    path: str
    size: int
    offset: int


def package_problem(path: Path) -> str | None:
    """Why a wheel or source archive (`.whl`, `.zip`, `.tar.gz`) must not be used; None if nothing speaks against it."""
    try:
        if path.name.endswith(".tar.gz"):
            with path.open("rb") as packed, gzip.open(packed) as unpacked:
                stream = _Limited(unpacked, _allowed(path.stat().st_size))
                for _ in tar_members(stream, folders=True):
                    pass
        else:
            _check_zip(path)
    except UsageError as error:
        return str(error)
    except DAMAGED as error:
        return f"it is damaged: {error or type(error).__name__}"
    return None


def tar_members(file: Stream, folders: bool = False, links: bool = False) -> Iterator[TarMember]:
    """The regular files of an uncompressed tar file, in order; only headers are kept in memory.

    Folders are passed over if `folders`, links inside the archive if `links`. Raises `UsageError` for any other kind of
    member, a path that leaves the archive, a path twice, and more than `MOST_MEMBERS`; `tarfile.TarError` if damaged.
    """
    seen: set[str] = set()
    longer: dict[str, str] = {}
    headers = position = names = 0
    while block := file.read(_BLOCK):
        position += _BLOCK
        if not block.strip(b"\0"):
            return
        headers += 1
        if headers > 3 * MOST_MEMBERS:
            raise UsageError(f"it has more than {3 * MOST_MEMBERS:,} headers")
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if info.size < 0:
            raise UsageError(f"it declares a size of {info.size} bytes for {info.name!r}")
        if info.type in (*_EXTENDED, _LONG_NAME, _LONG_LINK):
            longer |= _extended(file, info)
            position += _padded(info.size)
            continue
        size, path = int(longer.pop("size", info.size)), longer.pop("path", info.name)
        _check_member(path, info.type, longer.pop("linkpath", info.linkname), folders, links)
        if path in seen:
            raise UsageError(f"it has {path!r} twice")
        seen.add(path)
        names += len(path)
        if len(seen) > MOST_MEMBERS or names > LARGEST_DIRECTORY:
            raise UsageError(
                f"it has more than {MOST_MEMBERS:,} members, or names of over {LARGEST_DIRECTORY:,} bytes"
            )
        if info.type in _REGULAR:
            yield TarMember(path=path, size=size, offset=position)
            _skip(file, position, _padded(size))
            position += _padded(size)


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def path_problem(path: str) -> str | None:
    """Why a member's path is not a plain relative path; None if it is one."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        return f"the path {path!r} leaves the archive"
    if "\\" in path or any(ord(character) < 32 or ord(character) == 127 for character in path):
        return f"the path {path!r} has a backslash or a control character"
    return None


def _extended(file: Stream, info: tarfile.TarInfo) -> dict[str, str]:
    """The values of an extended header that matter here: path, linkpath and size of the next member."""
    if info.size > LARGEST_HEADER:
        raise UsageError(
            f"it has an extended header of {info.size:,} bytes (limit: {LARGEST_HEADER:,})"
        )
    content = file.read(_padded(info.size))[: info.size]
    if len(content) < info.size:
        raise tarfile.ReadError("unexpected end of data")
    if info.type in (_LONG_NAME, _LONG_LINK):
        text = content.rstrip(b"\0").decode("utf-8", "surrogateescape")
        return {"path" if info.type == _LONG_NAME else "linkpath": text}
    found: dict[str, str] = {}
    while content.strip(b"\0"):
        length, _, _ = content.partition(b" ")
        if not length.isdigit() or not len(length) < int(length[:9]) <= len(content):
            raise tarfile.ReadError("invalid extended header")
        key, _, value = (
            content[len(length) + 1 : int(length) - 1]
            .decode("utf-8", "surrogateescape")
            .partition("=")
        )
        content = content[int(length) :]
        if key.startswith("GNU.sparse"):
            raise UsageError("it has a sparse file; only regular files are accepted")
        if key == "size" and not (value.isdigit() and len(value) < 16):
            raise tarfile.ReadError("invalid size in an extended header")
        if info.type == b"x" and key in ("path", "linkpath", "size"):
            found[key] = value
    return found


def _check_member(path: str, kind: bytes, link: str, folders: bool, links: bool) -> None:
    if problem := path_problem(path):
        raise UsageError(problem)
    if kind in _REGULAR or (folders and kind == _DIRECTORIES):
        return
    if links and kind in _LINKS:
        target = os.path.normpath(PurePosixPath(path).parent / link if kind == b"2" else link)
        if problem := path_problem(target):
            raise UsageError(f"{path!r} is a link, and {problem}")
        return
    names = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", _DIRECTORIES: "a folder",
             b"6": "a FIFO", b"S": "a sparse file"}  # fmt: skip
    raise UsageError(
        f"{path!r} is {names.get(kind, 'of an unknown kind')}; only regular files are accepted"
    )


def _skip(file: Stream, position: int, count: int) -> None:
    """Move `count` bytes forward. Raises `tarfile.ReadError` if the file ends before."""
    if file.seekable():
        if file.seek(0, os.SEEK_END) < position + count:
            raise tarfile.ReadError("unexpected end of data")
        file.seek(position + count)
        return
    while count:
        chunk = file.read(min(count, _CHUNK))
        if not chunk:
            raise tarfile.ReadError("unexpected end of data")
        count -= len(chunk)


def _allowed(size: int) -> int:
    """How many bytes an archive of `size` bytes may unpack to."""
    return min(MOST_BYTES, max(ANY_RATIO, size * HIGHEST_RATIO))


class _Limited:
    """A stream without seeking that raises `UsageError` after `most` bytes."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self.stream, self.left, self.most = stream, most, most

    def read(self, count: int, /) -> bytes:
        content = self.stream.read(min(count, self.left + 1))
        self.left -= len(content)
        if self.left < 0:
            raise UsageError(
                f"it unpacks to more than {self.most:,} bytes (limit: {HIGHEST_RATIO} times its size)"
            )
        return content

    def seekable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = 0, /) -> int:
        raise OSError("a stream cannot seek")


def _check_zip(path: Path) -> None:
    """Raise `UsageError` or `zipfile.BadZipFile` if a zip file is hostile or damaged. Every member is unpacked once."""
    size = path.stat().st_size
    _check_directory(path, size)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        names = {member.filename for member in members}
        if len(names) < len(members):
            raise UsageError("it has a path twice")
        if sum(member.compress_size for member in members) > size:
            raise UsageError("its members overlap")
        if (total := sum(member.file_size for member in members)) > _allowed(size):
            raise UsageError(
                f"it unpacks to {total:,} bytes (limit: {HIGHEST_RATIO} times its size)"
            )
        for member in members:
            _check_zip_member(archive, member)


def _check_directory(path: Path, size: int) -> None:
    """Check the sizes in the end record before the central directory is read."""
    with path.open("rb") as file:
        file.seek(max(0, size - 22 - 65535))
        tail = file.read()
    found = tail.rfind(_END_OF_DIRECTORY)
    if found < 0 or len(tail) < found + 22:
        raise zipfile.BadZipFile("it has no end record")
    count, length = struct.unpack_from("<HI", tail, found + 10)
    if tail[max(0, found - 20) : found].startswith(_ZIP64):
        raise UsageError("it has a zip64 directory, for more members or bytes than a package has")
    if count > MOST_MEMBERS or length > LARGEST_DIRECTORY:
        raise UsageError(
            f"it has more than {MOST_MEMBERS:,} members, or a directory over {LARGEST_DIRECTORY:,} bytes"
        )


def _check_zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    if problem := path_problem(member.filename):
        raise UsageError(problem)
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UsageError(
            f"{member.filename!r} is a link or a device; only regular files are accepted"
        )
    if member.flag_bits & 1 or member.compress_type not in (
        zipfile.ZIP_STORED,
        zipfile.ZIP_DEFLATED,
    ):
        raise UsageError(f"{member.filename!r} is encrypted, or not packed with deflate")
    declared = member.file_size
    member.file_size += (
        4 * _CHUNK
    )  # `zipfile` cuts the content there, and one byte more than declared is read below
    real = 0
    with archive.open(member) as content:
        while chunk := content.read(min(_CHUNK, declared + 1 - real)):
            real += len(chunk)
    if real != declared:
        raise UsageError(
            f"{member.filename!r} declares {declared:,} bytes and has {'more' if real > declared else real}"
        )
