"""Atomic writing of files that a user names, and the names of owners; `run_files` has the files of run folders."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .errors import InfraError


@contextlib.contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn an `OSError` (disk full, read-only, unreachable) into an `InfraError` that names the file, `what`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InfraError(
                f"the disk is full: {what} could not be written; free space or move LLMB_INSTALL"
            ) from error
        reason = error.strerror or str(error)
        if error.errno in (errno.EEXIST, errno.ENOTDIR) and (file := in_the_way(Path(error.filename or what))):
            reason = f"{file} is a file, not a folder"
        raise InfraError(f"{what} could not be written: {reason}") from error


def free_bytes(folder: Path) -> int | None:
    """Free bytes on the disk of `folder`, which need not exist yet; None if the disk does not say."""
    import shutil

    place = folder.absolute()
    existing = next(path for path in (place, *place.parents) if path.is_dir())
    try:
        return shutil.disk_usage(existing).free
    except OSError:
        return None


def in_the_way(path: Path) -> Path | None:
    """The file at the place of the folder `path` or of one of its parents; None if there is none."""
    return next((place for place in (path, *path.parents) if place.is_file()), None)


def deny_others_writing() -> int:
    """Make nothing that this process and its children create world-writable, whatever the umask; return that one."""
    before = os.umask(0o077)
    os.umask(before | stat.S_IWOTH)
    return before


def write_atomic(path: Path, content: bytes | str, mode: int = 0o666, durable: bool = True) -> None:
    """Write `path` completely or not at all (temporary file, flush, rename). Raises `InfraError`.

    Of a link the file is written that it leads to; a pipe or device is written to, and stays.

    The file has the permissions `mode` without those that the umask removes, as with `open`, and is never
    world-writable.
    With `durable=False` the file may be lost in a power failure, but writing takes a fraction of the time.
    """
    with disk_errors(str(path)):
        path = path.resolve() if path.is_symlink() else path
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            return
        with _written_beside(path, content, mode, durable) as temporary:
            temporary.replace(path)


@contextlib.contextmanager
def _written_beside(path: Path, content: bytes | str, mode: int, durable: bool = True) -> Iterator[Path]:
    """A flushed temporary file in the folder of `path` with this content; removed at the end if it still exists."""
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.chmod(mode & ~(_umask() | stat.S_IWOTH))
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@functools.cache
def _umask() -> int:
    """The umask of this process, read once: reading it changes it for a moment, for all threads."""
    current = os.umask(0)
    os.umask(current)
    return current
