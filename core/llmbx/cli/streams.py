"""Standard output and error that never end a verb: who does not read, or a full disk, cannot undo what was done."""

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
    """A file descriptor for writing. After its first error, which is kept, it takes everything and writes nothing."""

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


def guard() -> None:
    """Put sinks under this process's standard output and error, where they are still the interpreter's own.

    A character that their encoding lacks becomes a question mark.
    """
    _occupy()
    if sys.stdout is sys.__stdout__:
        sys.stdout = _guarded(1, sys.stdout, by_line=os.isatty(1))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _guarded(2, sys.stderr, by_line=True)


def finish(code: int) -> int:
    """The exit code after the last word: output that could not be written makes a success the infrastructure's failure.

    A reader that went away (`| head`) had all that it wanted.
    """
    sys.stdout.flush()
    error = _error(sys.stdout)
    if error is not None and error.errno != errno.EPIPE:
        print(f"llmbx: the output could not be written: {error.strerror}", file=sys.stderr)
        code = code or InfraError.exit_code
    sys.stderr.flush()
    return code


def heard() -> bool:
    """Whether what is written to standard output still arrives anywhere."""
    return _error(sys.stdout) is None


def _error(stream: TextIO) -> OSError | None:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw.error if isinstance(raw, Sink) else None


def _guarded(fd: int, before: TextIO | None, by_line: bool) -> TextIO:
    errors = getattr(before, "errors", None) or "replace"
    return io.TextIOWrapper(
        io.BufferedWriter(Sink(fd)),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="replace" if errors == "strict" else errors,
        line_buffering=by_line,
    )


def _occupy() -> None:
    """Open what the shell closed (`>&-`) for reading only: a file of ours there would get the output of children."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)
