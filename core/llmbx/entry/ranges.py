"""NVTX ranges for an external profiler: `profile` around the profiled steps, and `step` with its number around each."""

from __future__ import annotations

import sys
from typing import Any

from llmbx.entry.rank import say

DOMAIN = "llmbx"


def nvtx_module() -> Any:
    """The module nvtx, or None with a log line if it is not installed."""
    try:
        import nvtx
    except ImportError:
        say(f"nvtx is not installed for {sys.executable}: the profile has no step ranges")
        return None
    return nvtx


class Marks:
    """Opens and closes the NVTX ranges of the profile and of the steps in it.

    With `whole=False` there is no range `profile`: calls of the CUDA profiler API mark its start and end.
    """

    def __init__(self, nvtx: Any, whole: bool = True) -> None:
        self._nvtx, self._whole = nvtx, whole
        self._runs = self._stepping = False

    def begin(self) -> None:
        """Start the profile."""
        if self._whole:
            self._nvtx.push_range("profile", domain=DOMAIN)
        self._runs = True

    def step(self, number: int) -> None:
        """End the previous step and start step `number`; outside of a profile this does nothing."""
        self.pause()
        if self._runs:
            self._nvtx.push_range("step", domain=DOMAIN, payload=number)
            self._stepping = True

    def pause(self) -> None:
        """End the current step."""
        if self._stepping:
            self._nvtx.pop_range(domain=DOMAIN)
            self._stepping = False

    def end(self) -> None:
        """End the profile."""
        self.pause()
        if self._runs and self._whole:
            self._nvtx.pop_range(domain=DOMAIN)
        self._runs = False
