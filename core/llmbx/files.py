"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import InfraError


@contextlib.contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn a full, read-only or unreachable disk into one clear line that names `what` was being written."""
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


def in_the_way(path: Path) -> Path | None:
    """The file where `path` or a folder above it should be; None when there is none."""
    return next((place for place in (path, *path.parents) if place.is_file()), None)


def write_atomic(path: Path, content: bytes | str, mode: int = 0o644, durable: bool = True) -> None:
    """Write `path` whole or not at all (temporary file beside it, flushed, renamed). Raises `InfraError`.

    What is not `durable` may be lost with the machine's power: it costs a fraction of the time.
    """
    with disk_errors(str(path)), _written_beside(path, content, mode, durable) as temporary:
        temporary.replace(path)


def write_exclusive(path: Path, content: bytes | str, mode: int = 0o644) -> bool:
    """Write `path` whole unless it exists; False when somebody else was first. Raises `InfraError`."""
    with disk_errors(str(path)), _written_beside(path, content, mode) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        return True


@contextlib.contextmanager
def _written_beside(path: Path, content: bytes | str, mode: int, durable: bool = True) -> Iterator[Path]:
    """A flushed temporary file beside `path` with this content; removed at the end if it is still there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.chmod(mode & ~_umask())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@functools.cache
def _umask() -> int:
    """The process's, asked once: asking sets it for a moment, for all threads."""
    current = os.umask(0)
    os.umask(current)
    return current
