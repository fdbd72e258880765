"""Standard output and error streams that never raise, and that show no control character.

A closed pipe or a full disk does not abort a verb. What is printed has text from logs, file names and other people's
records: control characters in it, with which a terminal could be made to hide or rewrite lines, are written as escapes.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from typing import TYPE_CHECKING, TextIO

from ..errors import InfraError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CONTROLS = bytes({*range(32), 127} - {9, 10})
_HIDDEN = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]")
"""Control characters besides tab and line feed, and those that change the direction or the lines of a text."""


def visible(text: str) -> str:
    """`text` with control characters as escapes (`\\\\x1b`); tabs and line feeds are kept."""
    if text.isascii():
        if text.isprintable():  # the fastest test, for the cells of a long table
            return text
        data = text.encode()
        if len(data.translate(None, _CONTROLS)) == len(data):
            return text
    return _HIDDEN.sub(_escape, text)


def visible_json(text: str) -> str:
    """JSON text with the control characters that JSON itself does not escape as `\\\\u009b`."""
    return text if text.isascii() and "\x7f" not in text else _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {13: "\\r", 0: "\\0"}.get(code, f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


class Visible(io.TextIOWrapper):
    """A text stream that writes control characters as escapes; `control` writes them as they are."""

    def write(self, text: str, /) -> int:
        super().write(visible(text))
        return len(text)

    def control(self, codes: str) -> None:
        """Write codes for the terminal."""
        super().write(codes)


def control(stream: TextIO, codes: str) -> None:
    """Write codes for the terminal to a standard stream, or to the stream of a test in its place."""
    write = getattr(stream, "control", stream.write)
    write(codes)


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
    return Visible(
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
