"""Trying again what a flaky registry or network broke, with growing pauses; what is plainly wrong fails at once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

from llmbx.errors import InfraError
from llmbx.runtimes.base import Progress

from .limits import Limits

T = TypeVar("T")

LONGEST_PAUSE_S = 60.0

_PASSING = re.compile(
    r"connection (?:refused|reset|closed)|broken pipe|unexpected eof|\beof\b|timed? ?out|timeout|deadline exceeded"
    r"|temporary failure|no route to host|network is unreachable|tls handshake|too ?many ?requests"
    r"|\b(?:429|500|502|503|504)\b|internal server error|bad gateway|service unavailable|gateway time-?out"
    r"|connection aborted|incomplete ?read|transfer closed|partial file|received unexpected http status: 5",
    re.IGNORECASE,
)


class Passing(InfraError):
    """A failure that may pass by itself. `after_s`: how long the other side asks to be left alone."""

    def __init__(self, text: str, after_s: float | None = None) -> None:
        super().__init__(text)
        self.after_s = after_s


def is_passing(text: str) -> bool:
    """Whether what a container tool said sounds like a fault of the network or the registry that may pass."""
    return bool(_PASSING.search(text))


def retrying(action: Callable[[], T], what: str, limits: Limits, deadline: float, progress: Progress) -> T:
    """The value of `action`, which is tried again after a `Passing` failure, `limits.retries` times at most.

    The pause doubles from `limits.backoff_s`; none goes past `deadline` (monotonic seconds). The last failure is
    raised as an `InfraError` that says how often it was tried.
    """
    pause = limits.backoff_s
    for attempt in range(1, limits.retries + 2):
        try:
            return action()
        except Passing as error:
            wait = min(LONGEST_PAUSE_S, max(pause, error.after_s or 0.0))
            if attempt > limits.retries or time.monotonic() + wait >= deadline:
                times = "once" if attempt == 1 else f"{attempt} times"
                raise InfraError(f"{what}: {error} (tried {times})") from error
            progress(f"{what}: {error}; trying again in {wait:g} s (try {attempt + 1} of {limits.retries + 1})")
            time.sleep(wait)
            pause *= 2
    raise AssertionError("unreachable")
