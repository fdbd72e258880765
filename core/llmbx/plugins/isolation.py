"""Isolate a plugin's code: exceptions become one line that names the plugin, its output goes to stderr."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from ..errors import LlmbxError, PluginError, one_line

PLUGIN_EXCEPTIONS = (Exception, SystemExit)
"""Exceptions of a plugin's code that must not end llmbx. KeyboardInterrupt comes from the user and is not caught."""


def debugging() -> bool:
    """Whether the user wants tracebacks (LLMBX_DEBUG=1)."""
    return os.environ.get("LLMBX_DEBUG", "") not in ("", "0")


def describe_error(error: BaseException) -> str:
    """Describe an exception in one line; with LLMBX_DEBUG=1, print its traceback first."""
    if debugging():
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    return one_line(error)


def failure(what: str, error: BaseException) -> PluginError:
    """Return the `PluginError` for `error`; `what` names the plugin and the call that failed."""
    hint = "" if debugging() else " (LLMBX_DEBUG=1 shows the traceback)"
    return PluginError(f"{what}: {describe_error(error)}{hint}")


@contextmanager
def isolated(what: str) -> Iterator[None]:
    """Run a plugin's code. Raises `PluginError`, whose message starts with `what`, for any exception.

    `LlmbxError`s of the plugin are not changed.
    """
    try:
        with stdout_to_stderr():
            yield
    except LlmbxError:
        raise
    except PLUGIN_EXCEPTIONS as error:
        raise failure(what, error) from error


class _Stdout:
    """Counts the active redirections of stdout to stderr in all threads. The last one to end restores stdout."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.original: TextIO = sys.stdout


_stdout = _Stdout()


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirect stdout to stderr meanwhile: stdout is reserved for the command's own output, which may be JSON."""
    with _stdout.lock:
        if _stdout.depth == 0:
            _stdout.original, sys.stdout = sys.stdout, sys.stderr
        _stdout.depth += 1
    try:
        yield
    finally:
        with _stdout.lock:
            _stdout.depth -= 1
            if _stdout.depth == 0:
                sys.stdout = _stdout.original
