"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import contextlib
import errno
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
            raise InfraError(f"the disk is full: {what} could not be written; free space or move LLMB_INSTALL") from error
        raise InfraError(f"{what} could not be written: {error.strerror or error}") from error


def write_atomic(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write `path` whole or not at all (temporary file beside it, flushed, renamed). Raises `InfraError`."""
    data = content.encode() if isinstance(content, str) else content
    with disk_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(mode & ~_umask())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
