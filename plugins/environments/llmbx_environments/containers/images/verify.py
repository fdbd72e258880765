"""Check that image files are complete, by the length in their header, and compute their sha256.

Formats: squashfs 4.0 superblock (Linux kernel, Documentation/filesystems/squashfs.rst and
fs/squashfs/squashfs_fs.h: magic `hsqs` at 0, version 4.0 at 28, bytes_used at 40, all
little-endian); SIF version 1 (sylabs/sif, pkg/sif/sif.go: a 128 byte header with a 32 byte launch
script, `SIF_MAGIC` at 32, then count, offset and size of descriptors and data).
"""

from __future__ import annotations

import hashlib
import os
import struct
import tarfile
import time
from pathlib import Path

from llmbx.api import InfraError, Progress, format_bytes

_SQUASHFS_HEAD = 96
_SIF_HEAD = 128
_CHUNK = 1 << 22
_REPORT_S = 5.0


def problem(path: Path) -> str | None:
    """What is wrong with the image file `path`, by its suffix; None if it is complete."""
    try:
        size = path.stat().st_size
        if size == 0:
            return "it is empty (0 bytes)"
        if path.suffix == ".tar":
            return _tar_problem(path)
        with path.open("rb") as file:
            head = file.read(_SIF_HEAD)
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    return _sif_problem(head, size) if path.suffix == ".sif" else _squashfs_problem(head, size)


def require_intact(path: Path) -> None:
    """Raise `InfraError` if the image file is corrupt or incomplete."""
    if reason := problem(path):
        raise InfraError(f"the image {path} is corrupt: {reason}")


def sha256_file(path: Path, progress: Progress) -> str:
    """`sha256:…` of the file's content; reports progress for large files."""
    hashed, total = hashlib.sha256(), path.stat().st_size
    done, reported_at = 0, time.monotonic()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            hashed.update(chunk)
            done += len(chunk)
            if time.monotonic() - reported_at >= _REPORT_S:
                reported_at = time.monotonic()
                progress(f"checking {path.name}: {format_bytes(done)} of {format_bytes(total)}")
    return f"sha256:{hashed.hexdigest()}"


def sha256_of_new(path: Path, progress: Progress) -> str:
    """`sha256_file` of a file that was just written; its content is also flushed to disk.

    Hashing is bound by the CPU and flushing by the disk, so they run in parallel.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=1) as pool:
        flushed = pool.submit(_flush, path)
        digest = sha256_file(path, progress)
        flushed.result()
    return digest


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _squashfs_problem(head: bytes, size: int) -> str | None:
    if len(head) < _SQUASHFS_HEAD or head[:4] != b"hsqs":
        return "it is not a squashfs file (it does not begin with hsqs)"
    major, minor = struct.unpack_from("<HH", head, 28)
    if (major, minor) != (4, 0):
        return f"its squashfs version is {major}.{minor}, not 4.0"
    (used,) = struct.unpack_from("<Q", head, 40)
    return _truncated(size, used, "superblock")


def _sif_problem(head: bytes, size: int) -> str | None:
    if len(head) < _SIF_HEAD or head[32:41] != b"SIF_MAGIC":
        return "it is not a SIF file (SIF_MAGIC is missing)"
    # Before these: launch script 32, magic 10, version 3, architecture 3, id 16, two times.
    free, total, *places = struct.unpack_from("<6q", head, 80)
    if total - free < 1:
        return "it is an empty SIF file (no descriptors)"
    descriptors, descriptors_size, data, data_size = places
    return _truncated(size, max(descriptors + descriptors_size, data + data_size), "header")


def _truncated(size: int, expected: int, source: str) -> str | None:
    if size >= expected:
        return None
    return f"it is truncated: {size} of the {expected} bytes in its {source}"


def _tar_problem(path: Path) -> str | None:
    try:
        with tarfile.open(path) as archive:
            names = set(archive.getnames())
    except (tarfile.TarError, EOFError, OSError) as error:
        return f"it is not a complete tar file: {str(error).splitlines()[0].rstrip(':')}"
    if "manifest.json" not in names:
        return "it is not a Docker archive (`docker save`): it has no manifest.json"
    return None
