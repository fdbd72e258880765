"""Report calls into plugins that do not return, and end those that have a limit.

An alarm interrupts the main thread, also in a system call and in a regular expression. It is set for the first moment
at which a call that runs now is due. C code that neither returns nor looks for signals cannot be interrupted.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Protocol

from ..errors import UsageError

VARIABLE = "LLMBX_HOOK_LIMIT_S"
REPORT = "has been running for"
"""In the line about a call that has not returned."""

DEFAULT_S = 60.0

NOTICE = 1 / 6
"""Part of the limit after which a call is reported: 10 of 60 seconds."""

UNLIMITED = frozenset({"figures", "report_sections", "write_sections", "find_runs", "read_logs"})
"""Hooks that read what a run left, which may be gigabytes: they are reported, and not ended."""

ENTRANCE = (__name__, f"{__package__}.calls")
"""Modules that begin and end calls. An exception there would leave a call that has ended in the list."""

INTERRUPTED = 130

NEVER = float("inf")


class TookTooLong(BaseException):
    """Raised inside the code of a plugin. Not an `Exception`, so that a plugin that catches everything ends too."""

    def __init__(self, call: Watched | None = None) -> None:
        self.call = call


class Watched(Protocol):
    """A call that runs now. `item` is what it works on: its time begins again with each item, and stops for None."""

    limit_s: float
    notice_s: float
    began: float
    item: object
    seen: object
    reported: bool

    @property
    def title(self) -> str:
        """The plugin and the call, for messages."""


def limit_s(environ: Mapping[str, str] = os.environ) -> float:
    """Seconds that a hook may take; infinite if the variable is 0. Raises `UsageError` for an invalid value."""
    text = environ.get(VARIABLE, "").strip()
    try:
        seconds = float(text or DEFAULT_S)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise UsageError(f"{VARIABLE}={text!r}: expected a number of seconds, or 0 for no limit")
    return seconds or NEVER


def notice_s() -> float:
    """Seconds after which a call is reported."""
    limit = limit_s()
    return NOTICE * (DEFAULT_S if limit == NEVER else limit)


class _Alarm:
    """The alarm of this process: the calls that run now, by thread, innermost last."""

    def __init__(self) -> None:
        self.calls: dict[int, list[Watched]] = {}
        self.given_up: set[str] = set()
        self.set_for = NEVER
        self.own = False
        """Whether the process is the command itself, whose signals may be handled here."""
        self.before: tuple[Any, float, float] | None = None
        """Handler, seconds and time of the alarm of others, which is given back; None: no alarm is set here."""
        self.interrupted = False

    def install(self) -> None:
        handler = signal.signal(signal.SIGALRM, self.rings)
        outer, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        self.before = (handler, outer, time.monotonic())

    def uninstall(self) -> None:
        assert self.before is not None
        handler, outer, since = self.before
        self.before, self.set_for = None, NEVER
        signal.setitimer(signal.ITIMER_REAL, max(1e-3, outer - (time.monotonic() - since)) if outer else 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)  # None: not set by Python

    def begin(self, call: Watched) -> None:
        self.calls.setdefault(threading.get_ident(), []).append(call)
        if self.before is None and threading.current_thread() is threading.main_thread():
            self.install()
        self.set(call.began + min(call.limit_s, call.notice_s))

    def end(self) -> None:
        thread = threading.get_ident()
        self.calls[thread].pop()
        if self.calls[thread]:
            return
        del self.calls[thread]
        if self.before and not self.own and threading.current_thread() is threading.main_thread():
            self.uninstall()
        elif not self.calls and self.set_for != NEVER:
            self.set_for = NEVER
            signal.setitimer(signal.ITIMER_REAL, 0)

    def set(self, due: float) -> None:
        """Set the alarm, unless it is set for an earlier time."""
        if self.before and due < self.set_for:
            self.set_for = due
            signal.setitimer(signal.ITIMER_REAL, max(1e-3, due - time.monotonic()))

    def rings(self, number: int, frame: FrameType | None) -> None:
        self.set_for, now = NEVER, time.monotonic()
        for calls in [*self.calls.values()]:
            self._look(calls, now)
        if self.interrupted and any(call.reported for calls in self.calls.values() for call in calls):
            leave()
        for call in (call for calls in [*self.calls.values()] for call in calls):
            due = call.limit_s if call.reported else min(call.limit_s, call.notice_s)
            self.set(max(call.began + due, now + 1e-3))
        if frame is not None and frame.f_globals.get("__name__") in ENTRANCE:
            return  # a call begins or has just returned: the alarm rings again in a moment
        for call in self.calls.get(threading.get_ident(), ()):  # only the main thread can be interrupted
            if now - call.began >= call.limit_s:
                raise TookTooLong(call)

    def _look(self, calls: Sequence[Watched], now: float) -> None:
        """Report the innermost call that is due: the others wait for it."""
        waits = False
        for call in reversed([*calls]):
            if call.item is None or call.item is not call.seen:
                call.seen, call.began = call.item, now  # it works, or it waits for its next item
            elif now - call.began >= call.notice_s and not call.reported:
                call.reported = True
                if not waits:
                    self._report(call, now)
            waits = waits or call.reported

    def _report(self, call: Watched, now: float) -> None:
        if self.own and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self.interrupt)
        seconds = now - call.began
        text = f"{call.title} {REPORT} {seconds:.{0 if seconds >= 1 else 1}f} s"
        _say(f"{text} (Ctrl-C ends llmbx)")

    def interrupt(self, number: int, frame: object) -> None:
        """Ctrl-C after a report. If a call still hangs after a while, or on the next Ctrl-C, the command exits."""
        if self.interrupted:
            leave()
        self.interrupted = True
        self.set(time.monotonic() + notice_s())
        raise KeyboardInterrupt


alarm = _Alarm()


def own_process() -> None:
    """Let the alarm be set by any thread, and let Ctrl-C end this process even if a plugin hangs."""
    alarm.own = True
    alarm.install()


def leave() -> None:
    """Exit although a plugin hangs."""
    _say("interrupted")
    os._exit(INTERRUPTED)


def _say(text: str) -> None:
    """Print a line from a signal handler: the stream itself may be what was interrupted."""
    with suppress(OSError):
        os.write(2, f"llmbx: {text}\n".encode(errors="backslashreplace"))
