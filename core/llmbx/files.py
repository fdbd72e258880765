"""Atomic and exclusive writing of files, and the names of their owners."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .errors import InfraError

LARGEST_RECORD = 64 << 20
"""Maximum size in bytes of a record (run.json, result.json …); a larger file is none, and is not read into memory."""

LONGEST_LINE = 1 << 16
"""Maximum length in bytes of a line of a record that has one value per line."""


def read_record(path: Path) -> bytes:
    """The content of a record. Raises `OSError` for a file that is too large to be one, or that cannot be read."""
    with path.open("rb") as file:
        content = file.read(LARGEST_RECORD + 1)
    if len(content) > LARGEST_RECORD:
        raise OSError(errno.EFBIG, f"it is larger than {LARGEST_RECORD >> 20} MiB", str(path))
    return content


def bounded_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file without their ends. One longer than `LONGEST_LINE` is cut. Raises `OSError`."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE + 1):
            rest = line
            while not rest.endswith(b"\n") and (rest := file.readline(1 << 20)):
                pass
            yield line[:LONGEST_LINE].rstrip(b"\r\n")


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


def user_name(uid: int) -> str:
    """The name of a user; the number if it has no name (in some containers)."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


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


def write_exclusive(path: Path, content: bytes | str, mode: int = 0o666) -> bool:
    """Write `path` completely unless it exists; False if it does. Raises `InfraError`."""
    with disk_errors(str(path)), _written_beside(path, content, mode) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        return True


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
