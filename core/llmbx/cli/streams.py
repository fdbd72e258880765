"""Standard output and error streams that never raise: a closed pipe or a full disk does not abort a verb."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from ..errors import InfraError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Sink(io.RawIOBase):
    """A writable file descriptor. After the first error, stored in `error`, writes are discarded silently."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.fd

    def isatty(self) -> bool:
        return os.isatty(self.fd)

    def write(self, data: ReadableBuffer, /) -> int:
        if self.error is None:
            try:
                return os.write(self.fd, data)
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes


def wrap_standard_streams() -> None:
    """Replace standard output and error by sinks, unless they have already been replaced.

    Characters that the encoding cannot represent are written as question marks.
    """
    _open_missing_descriptors()
    if sys.stdout is sys.__stdout__:
        sys.stdout = _wrapped(1, sys.stdout, by_line=os.isatty(1))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _wrapped(2, sys.stderr, by_line=True)


def finish(code: int) -> int:
    """Flush the streams and return the exit code: 4 instead of 0 if output could not be written.

    A closed pipe (`| head`) is not an error.
    """
    sys.stdout.flush()
    error = _error(sys.stdout)
    if error is not None and error.errno != errno.EPIPE:
        print(f"llmbx: the output could not be written: {error.strerror}", file=sys.stderr)
        code = code or InfraError.exit_code
    sys.stderr.flush()
    return code


def stdout_works() -> bool:
    """Whether nothing has failed on standard output so far."""
    return _error(sys.stdout) is None


def _error(stream: TextIO) -> OSError | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw.error if isinstance(raw, Sink) else None


def _wrapped(fd: int, before: TextIO | None, by_line: bool) -> TextIO:
    errors = getattr(before, "errors", None) or "replace"
    return io.TextIOWrapper(
        io.BufferedWriter(Sink(fd)),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="replace" if errors == "strict" else errors,
        line_buffering=by_line,
    )


def _open_missing_descriptors() -> None:
    """Open descriptors closed by the shell (`>&-`), read-only, so that no other file gets the output of children."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)
