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
    r"connection (?:refused|reset|closed)|broken pipe|unexpected eof|\beof\b|timed? ?out|timeout"
    r"|deadline exceeded|temporary failure|no route to host|network is unreachable|tls handshake"
    r"|too ?many ?requests|\b(?:429|500|502|503|504)\b|internal server error|bad gateway"
    r"|service unavailable|gateway time-?out|connection aborted|incomplete ?read|transfer closed"
    r"|partial file|received unexpected http status: 5",
    re.IGNORECASE,
)


class TransientError(InfraError):
    """A failure that is worth a retry. `after_s`: the pause that the server asked for."""

    def __init__(self, text: str, after_s: float | None = None) -> None:
        super().__init__(text)
        self.after_s = after_s


def is_transient(text: str) -> bool:
    """Whether a tool's output indicates a transient failure of the network or the registry."""
    return bool(_TRANSIENT.search(text))


class Attempts:
    """The attempts of one import: how often and until when (`deadline`, monotonic seconds)."""

    def __init__(self, title: str, settings: ContainerSettings, progress: Progress) -> None:
        self.title, self.settings, self.progress = title, settings, progress
        self.deadline = time.monotonic() + settings.image_timeout_s

    def retry(self, action: Callable[[], T]) -> T:
        """Call `action` until it raises no `TransientError`, with a pause that doubles.

        Raises `InfraError` with the number of attempts after the last failure.
        """
        pause, most = self.settings.image_backoff_s, self.settings.image_retries + 1
        for attempt in range(1, most + 1):
            try:
                return action()
            except TransientError as error:
                wait = min(LONGEST_PAUSE_S, max(pause, error.after_s or 0.0))
                if attempt == most or time.monotonic() + wait >= self.deadline:
                    times = "1 attempt" if attempt == 1 else f"{attempt} attempts"
                    raise InfraError(f"{self.title}: {error} (after {times})") from error
                retry = f"retrying in {wait:g} s (attempt {attempt + 1} of {most})"
                self.progress(f"{self.title}: {error}; {retry}")
                time.sleep(wait)
                pause *= 2
        raise AssertionError("unreachable")
