"""Check archives that come from elsewhere before they are used, in bounded time and memory.

An archive has regular files with relative paths, at most `MOST_MEMBERS`, in the sizes that it
declares, and does not unpack to much more than its own size. Tar headers are those of POSIX (pax)
and of the manual of GNU tar, zip records those of PKWARE's APPNOTE 6.3.
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
from typing import IO

from llmbx.api import UsageError, Value

MOST_MEMBERS = 65_000
LARGEST_HEADER = 1 << 16
"""Largest extended header (a long name) of a tar file, in bytes."""
LARGEST_DIRECTORY = 1 << 24
"""Largest central directory of a zip file, and most bytes of all names in a tar file."""
HIGHEST_RATIO = 200
"""An archive may unpack to this many times its own size. Wheels have 2 to 10."""
ANY_RATIO = 1 << 26
"""Unpacked bytes up to which the ratio does not matter."""
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
_REGULAR = (b"0", b"\0")
_LINKS = (b"1", b"2")
_SYMBOLIC = b"2"
_FOLDER = b"5"
_EXTENDED = (b"x", b"g")
_LONG_NAMES = {b"L": "path", b"K": "linkpath"}
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder",
    b"6": "a FIFO",
    b"S": "a sparse file",
}
_END_OF_DIRECTORY, _ZIP64 = b"PK\x05\x06", b"PK\x06\x07"


class TarMember(Value, frozen=True):
    """One regular file of a tar file: its path, its size in bytes, and where its content begins."""

    path: str
    size: int
    offset: int


def package_problem(path: Path) -> str | None:
    """Why a wheel or source archive must not be used; None if it may be used."""
    try:
        if path.name.endswith(".tar.gz"):
            _check_packed_tar(path)
        else:
            _check_zip(path)
    except UsageError as error:
        return str(error)
    except DAMAGED as error:
        return f"it is damaged: {error or type(error).__name__}"
    return None


def path_problem(path: str) -> str | None:
    """Why a member's path is not a plain relative path; None if it is one."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        return f"the path {path!r} leaves the archive"
    if "\\" in path or any(ord(character) < 32 or ord(character) == 127 for character in path):
        return f"the path {path!r} has a backslash or a control character"
    return None


def tar_members(
    file: IO[bytes] | Limited, folders: bool = False, links: bool = False
) -> Iterator[TarMember]:
    """The regular files of an uncompressed tar file; only headers are kept in memory.

    Folders are skipped if `folders`, links inside the archive if `links`. Raises `UsageError` for
    other members, hostile paths and too many of them, `tarfile.TarError` if it is damaged.
    """
    return _TarReader(file, folders, links).members()


class _TarReader:
    """Reads the headers of one tar file."""

    def __init__(self, file: IO[bytes] | Limited, folders: bool, links: bool) -> None:
        self.file, self.folders, self.links = file, folders, links
        self.position = 0
        self.paths: set[str] = set()
        self.name_bytes = 0

    def members(self) -> Iterator[TarMember]:
        extended: dict[str, str] = {}
        for info in self._headers():
            if info.type in (*_EXTENDED, *_LONG_NAMES):
                extended |= self._extended(info)
                continue
            path = extended.get("path", info.name)
            size = int(extended.get("size", info.size))
            self._check(path, info.type, extended.get("linkpath", info.linkname))
            extended = {}
            if info.type in _REGULAR:
                yield TarMember(path=path, size=size, offset=self.position)
                self._skip(_padded(size))

    def _headers(self) -> Iterator[tarfile.TarInfo]:
        """Every header up to the end of the archive."""
        most = 3 * MOST_MEMBERS
        for _ in range(most):
            block = self.file.read(_BLOCK)
            self.position += _BLOCK
            if not block.strip(b"\0"):
                return
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            if info.size < 0:
                raise UsageError(f"it declares a size of {info.size} bytes for {info.name!r}")
            yield info
        raise UsageError(f"it has more than {most:,} headers")

    def _extended(self, info: tarfile.TarInfo) -> dict[str, str]:
        """The path, linkpath and size that an extended header gives to the next member."""
        if info.size > LARGEST_HEADER:
            size = f"{info.size:,} bytes (limit: {LARGEST_HEADER:,})"
            raise UsageError(f"it has an extended header of {size}")
        content = self.file.read(_padded(info.size))[: info.size]
        self.position += _padded(info.size)
        if len(content) < info.size:
            raise tarfile.ReadError("unexpected end of data")
        if info.type in _LONG_NAMES:
            return {
                _LONG_NAMES[info.type]: content.rstrip(b"\0").decode("utf-8", "surrogateescape")
            }
        values = _extended_values(content)
        return values if info.type == b"x" else {}

    def _check(self, path: str, kind: bytes, link: str) -> None:
        """Raise `UsageError` for a member that is not accepted."""
        if problem := path_problem(path):
            raise UsageError(problem)
        if kind in _LINKS and self.links:
            _check_link(path, kind, link)
        elif kind not in _REGULAR and not (kind == _FOLDER and self.folders):
            name = _KINDS.get(kind, "of an unknown kind")
            raise UsageError(f"{path!r} is {name}; only regular files are accepted")
        if path in self.paths:
            raise UsageError(f"it has {path!r} twice")
        self.paths.add(path)
        self.name_bytes += len(path)
        if len(self.paths) > MOST_MEMBERS or self.name_bytes > LARGEST_DIRECTORY:
            limit = f"{MOST_MEMBERS:,} members, or names of over {LARGEST_DIRECTORY:,} bytes"
            raise UsageError(f"it has more than {limit}")

    def _skip(self, count: int) -> None:
        """Move `count` bytes forward. Raises `tarfile.ReadError` if the file ends before."""
        self.position += count
        if not isinstance(self.file, Limited):
            if self.file.seek(0, os.SEEK_END) < self.position:
                raise tarfile.ReadError("unexpected end of data")
            self.file.seek(self.position)
            return
        while count:
            chunk = self.file.read(min(count, _CHUNK))
            if not chunk:
                raise tarfile.ReadError("unexpected end of data")
            count -= len(chunk)


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _extended_values(content: bytes) -> dict[str, str]:
    """The values of a pax header that matter here; its records are `LENGTH KEY=VALUE` lines."""
    values: dict[str, str] = {}
    while content.strip(b"\0"):
        digits = content.partition(b" ")[0]
        if not digits.isdigit() or not len(digits) < int(digits[:9]) <= len(content):
            raise tarfile.ReadError("invalid extended header")
        length = int(digits)
        record = content[len(digits) + 1 : length - 1].decode("utf-8", "surrogateescape")
        content = content[length:]
        key, _, value = record.partition("=")
        if key.startswith("GNU.sparse"):
            raise UsageError("it has a sparse file; only regular files are accepted")
        if key == "size" and not (value.isdigit() and len(value) < 16):
            raise tarfile.ReadError("invalid size in an extended header")
        if key in ("path", "linkpath", "size"):
            values[key] = value
    return values


def _check_link(path: str, kind: bytes, link: str) -> None:
    """Raise `UsageError` if a link leads out of the archive."""
    target = PurePosixPath(path).parent / link if kind == _SYMBOLIC else link
    if problem := path_problem(os.path.normpath(target)):
        raise UsageError(f"{path!r} is a link, and {problem}")


def _most_unpacked(size: int) -> int:
    """How many bytes an archive of `size` bytes may unpack to."""
    return min(MOST_BYTES, max(ANY_RATIO, size * HIGHEST_RATIO))


class Limited:
    """A stream without seeking that raises `UsageError` after `most` bytes."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self.stream, self.left, self.most = stream, most, most

    def read(self, count: int) -> bytes:
        """At most `count` bytes."""
        content = self.stream.read(min(count, self.left + 1))
        self.left -= len(content)
        if self.left < 0:
            raise UsageError(_too_large(f"more than {self.most:,}"))
        return content


def _too_large(size: str) -> str:
    return f"it unpacks to {size} bytes (limit: {HIGHEST_RATIO} times its size)"


def _check_packed_tar(path: Path) -> None:
    """Raise an error if a compressed tar file is hostile or damaged."""
    with path.open("rb") as packed, gzip.open(packed) as unpacked:
        stream = Limited(unpacked, _most_unpacked(path.stat().st_size))
        for _ in tar_members(stream, folders=True):
            pass


def _check_zip(path: Path) -> None:
    """Raise an error if a zip file is hostile or damaged. Every member is unpacked once."""
    size = path.stat().st_size
    _check_directory(path, size)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len({member.filename for member in members}) < len(members):
            raise UsageError("it has a path twice")
        if sum(member.compress_size for member in members) > size:
            raise UsageError("its members overlap")
        total = sum(member.file_size for member in members)
        if total > _most_unpacked(size):
            raise UsageError(_too_large(f"{total:,}"))
        for member in members:
            _check_zip_member(archive, member)


def _check_directory(path: Path, size: int) -> None:
    """Check the sizes in the end record before the central directory is read."""
    with path.open("rb") as file:
        file.seek(max(0, size - 22 - 65535))
        tail = file.read()
    end = tail.rfind(_END_OF_DIRECTORY)
    if end < 0 or len(tail) < end + 22:
        raise zipfile.BadZipFile("it has no end record")
    count, length = struct.unpack_from("<HI", tail, end + 10)
    if tail[max(0, end - 20) : end].startswith(_ZIP64):
        raise UsageError("it has a zip64 directory, for more members or bytes than a package has")
    if count > MOST_MEMBERS or length > LARGEST_DIRECTORY:
        limit = f"{MOST_MEMBERS:,} members, or a directory over {LARGEST_DIRECTORY:,} bytes"
        raise UsageError(f"it has more than {limit}")


def _check_zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    name, declared = member.filename, member.file_size
    if problem := path_problem(name):
        raise UsageError(problem)
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UsageError(f"{name!r} is a link or a device; only regular files are accepted")
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if member.flag_bits & 1 or member.compress_type not in methods:
        raise UsageError(f"{name!r} is encrypted, or not packed with deflate")
    # `zipfile` cuts the content at this size, and one byte more than declared is read below.
    member.file_size += 4 * _CHUNK
    real = 0
    with archive.open(member) as content:
        while chunk := content.read(min(_CHUNK, declared + 1 - real)):
            real += len(chunk)
    if real != declared:
        actual = "more" if real > declared else real
        raise UsageError(f"{name!r} declares {declared:,} bytes and has {actual}")
