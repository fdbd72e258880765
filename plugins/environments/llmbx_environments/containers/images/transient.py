"""Retry after transient failures of a registry or the network, with exponential backoff."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

from llmbx.api import InfraError, Progress

from ..settings import ContainerSettings

T = TypeVar("T")

LONGEST_PAUSE_S = 60.0

_TRANSIENT = re.compile(
    r"connection (?:refused|reset|closed)|broken pipe|unexpected eof|\beof\b|timed? ?out|timeout|deadline exceeded"
    r"|temporary failure|no route to host|network is unreachable|tls handshake|too ?many ?requests"
    r"|\b(?:429|500|502|503|504)\b|internal server error|bad gateway|service unavailable|gateway time-?out"
    r"|connection aborted|incomplete ?read|transfer closed|partial file|received unexpected http status: 5",
    re.IGNORECASE,
)


class TransientError(InfraError):
    """A failure that is worth a retry. `after_s`: seconds to wait, if the server asked for a pause (Retry-After)."""

    def __init__(self, text: str, after_s: float | None = None) -> None:
        super().__init__(text)
        self.after_s = after_s


def is_transient(text: str) -> bool:
    """Whether the output of a container tool indicates a transient failure of the network or the registry."""
    return bool(_TRANSIENT.search(text))


def retry(
    action: Callable[[], T],
    what: str,
    settings: ContainerSettings,
    deadline: float,
    progress: Progress,
) -> T:
    """Call `action` and return its value; retry after a `TransientError`, at most `settings.image_retries` times.

    The pause starts at `settings.image_backoff_s` seconds and doubles; no retry starts after `deadline` (monotonic
    seconds). Raises `InfraError` with the number of attempts after the last failure.
    """
    pause, retries = settings.image_backoff_s, settings.image_retries
    for attempt in range(1, retries + 2):
        try:
            return action()
        except TransientError as error:
            wait = min(LONGEST_PAUSE_S, max(pause, error.after_s or 0.0))
            if attempt > retries or time.monotonic() + wait >= deadline:
                times = "1 attempt" if attempt == 1 else f"{attempt} attempts"
                raise InfraError(f"{what}: {error} (after {times})") from error
            progress(
                f"{what}: {error}; retrying in {wait:g} s (attempt {attempt + 1} of {retries + 1})"
            )
            time.sleep(wait)
            pause *= 2
    raise AssertionError("unreachable")
