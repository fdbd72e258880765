"""Keep standard output for the command's own output, which may be JSON, while a plugin's code runs."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TextIO

_lock = threading.RLock()
_depth = 0
_stream: TextIO = sys.stdout
_descriptor = -1
"""A duplicate of descriptor 1 while it is redirected; -1 if it could not be redirected."""


def redirect() -> None:
    """Redirect `sys.stdout` and descriptor 1 to standard error, until `restore` was called as often as this."""
    global _depth, _stream, _descriptor
    with _lock:
        if _depth == 0:
            _stream, sys.stdout = sys.stdout, sys.stderr
            _descriptor = -1
            with suppress(OSError):  # a library may run without these descriptors
                _descriptor = os.dup(1)
                os.dup2(2, 1)
        _depth += 1


def restore() -> None:
    """End one redirection; the last one in all threads gives standard output back."""
    global _depth, _descriptor
    with _lock:
        _depth -= 1
        if _depth == 0:
            sys.stdout = _stream
            if _descriptor >= 0:
                os.dup2(_descriptor, 1)
                os.close(_descriptor)
                _descriptor = -1


def give_away() -> None:
    """Point descriptor 1 at standard error for good: what C libraries print when the process ends is not output."""
    with suppress(OSError):
        os.dup2(2, 1)
