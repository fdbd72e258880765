"""The wall around a plugin's code: what it raises becomes one line that names it, what it prints goes to stderr."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from ..errors import LlmbxError, PluginError, one_line

ESCAPES = (Exception, SystemExit)
"""What a plugin's code may raise that must not end llmbx. KeyboardInterrupt is the user's own word and passes."""


def debugging() -> bool:
    """Whether the user wants to see tracebacks."""
    return os.environ.get("LLMBX_DEBUG", "") not in ("", "0")


def why(error: BaseException) -> str:
    """One line on an exception; with LLMBX_DEBUG=1 its traceback is printed first."""
    if debugging():
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    return one_line(error)


def failure(what: str, error: BaseException) -> PluginError:
    """The error for `what` of a plugin that raised `error`."""
    hint = "" if debugging() else " (LLMBX_DEBUG=1 shows the traceback)"
    return PluginError(f"{what}: {why(error)}{hint}")


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Run a plugin's code. `what` begins the line on whatever it raises; its own `LlmbxError`s pass as they are."""
    try:
        with quiet():
            yield
    except LlmbxError:
        raise
    except ESCAPES as error:
        raise failure(what, error) from error


class _Stdout:
    """How many calls, in all threads, have stdout sent to stderr. The last one gives back what the first one took."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.taken: TextIO = sys.stdout


_stdout = _Stdout()


@contextmanager
def quiet() -> Iterator[None]:
    """What is printed meanwhile goes to stderr: stdout belongs to the command's own answer, which may be JSON."""
    with _stdout.lock:
        if _stdout.depth == 0:
            _stdout.taken, sys.stdout = sys.stdout, sys.stderr
        _stdout.depth += 1
    try:
        yield
    finally:
        with _stdout.lock:
            _stdout.depth -= 1
            if _stdout.depth == 0:
                sys.stdout = _stdout.taken
