"""End code of a plugin that does not return: every command waits for some hooks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from ..errors import UsageError

VARIABLE = "LLMBX_HOOK_LIMIT_S"
DEFAULT_S = 60.0

UNLIMITED = frozenset({"analyze", "figures", "report_sections", "write_sections", "compare_sides", "find_runs"})
"""Hooks that read what a run left, which may be gigabytes."""


HEAVY = frozenset({"predict_run"})
"""Hooks of commands that start or describe a run: nobody is told that they took a second or two on a busy machine."""


class TookTooLong(BaseException):
    """Raised inside the code of a plugin. Not an `Exception`, so that a plugin that catches everything ends too."""


def limit_s(environ: Mapping[str, str] = os.environ) -> float:
    """Seconds that a hook may take; infinite if the variable is 0. Raises `UsageError` for an invalid value."""
    text = environ.get(VARIABLE, "").strip()
    try:
        found = float(text or DEFAULT_S)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e9:
        raise UsageError(f"{VARIABLE}={text!r}: expected a number of seconds, or 0 for no limit")
    return found or float("inf")


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` in the code inside after this time.

    Only the main thread can be interrupted; in other threads there is no limit. Limits may be nested.
    """
    if seconds == float("inf") or threading.current_thread() is not threading.main_thread():
        yield
        return
    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, _interrupt)
    outer, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, max(0.001, outer - (time.monotonic() - began)) if outer else 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)  # None: not set by Python


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise TookTooLong
