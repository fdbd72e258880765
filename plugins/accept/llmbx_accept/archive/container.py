"""The file format of an archive: a gzip of a tar of regular files, the same bytes for the same content.

Each header is exactly the one that llmbx writes for a name and a size (ustar, no owner, time 0). The reader accepts
nothing else: no links, devices, folders, long headers, second names, or paths that leave the archive.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from llmbx.api import UsageError, format_bytes

MOST_MEMBERS = 100_000
LARGEST_MEMBER = 1 << 31
HIGHEST_RATIO, ANY_RATIO, MOST_BYTES = 200, 1 << 28, 1 << 33
"""An archive may unpack to this many times its size, but not to more than `MOST_BYTES`; up to `ANY_RATIO` bytes the
ratio does not matter."""

_BLOCK = 512
_END = bytes(2 * _BLOCK)


def pack(target: IO[bytes], files: Mapping[str, bytes]) -> None:
    """Write the files, sorted by name."""
    with gzip.GzipFile(filename="", fileobj=target, mode="wb", compresslevel=6, mtime=0) as packed:
        for name in sorted(files):
            content = files[name]
            packed.write(header(name, len(content)))
            packed.write(content)
            packed.write(bytes(-len(content) % _BLOCK))
        packed.write(_END)


def header(name: str, size: int) -> bytes:
    """The header of a file. Raises `ValueError` for a name that is too long for it."""
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")


def unpack(path: Path) -> dict[str, bytes]:
    """The files of an archive by name. Raises `UsageError`, in one line, for what llmbx did not write."""
    try:
        return dict(_members(path))
    except UsageError as error:
        raise UsageError(f"{path} was refused: {error}") from None
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise UsageError(f"{path} is not an archive of `llmbx accept --archive`") from None
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        raise UsageError(f"{path} is damaged: {error or type(error).__name__}") from None


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as file:
        most = min(MOST_BYTES, max(ANY_RATIO, HIGHEST_RATIO * file.seek(0, io.SEEK_END)))
        file.seek(0)
        with gzip.open(file) as unpacked:
            names: set[str] = set()
            while (block := _read(unpacked, _BLOCK)).strip(b"\0"):
                name, size = _checked(block, names)
                names.add(name)
                most -= size
                if most < 0 or len(names) > MOST_MEMBERS:
                    raise UsageError(f"it has more than {MOST_MEMBERS:,} files, or unpacks to far more than its size")
                yield name, _read(unpacked, size)
                if _read(unpacked, -size % _BLOCK).strip(b"\0"):
                    raise UsageError(f"there is something between {name!r} and the next file")
            if _read(unpacked, _BLOCK).strip(b"\0") or unpacked.read(1):
                raise UsageError("there is something after its last file")


def _read(stream: gzip.GzipFile, size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError("it ends too early")
    return content


def _checked(block: bytes, names: set[str]) -> tuple[str, int]:
    """The name and the size of a header. Raises `UsageError` unless it is exactly as llmbx writes it."""
    info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    name = info.name
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable():
        raise UsageError(f"the path {name!r} leaves the archive, or is not a plain one")
    if info.type != tarfile.REGTYPE:
        raise UsageError(f"{name!r} is not a regular file")
    if not 0 <= info.size <= LARGEST_MEMBER:
        raise UsageError(f"{name!r} declares {format_bytes(max(info.size, 0))}")
    if name in names:
        raise UsageError(f"it has {name!r} twice")
    if header(name, info.size) != block:
        raise UsageError(f"the header of {name!r} is not one that llmbx writes")
    return name, info.size
