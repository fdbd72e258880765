"""NVTX ranges for a profiler that looks on: `profile` around the profiled steps, `step` with its number around each."""

from __future__ import annotations

import sys
from typing import Any

from llmbx.entry.rank import say

DOMAIN = "llmbx"


def nvtx_module() -> Any:
    """The package nvtx; None, which is said, where it is not installed."""
    try:
        import nvtx
    except ImportError:
        say(f"{sys.executable} has no nvtx: the profile has no step ranges")
        return None
    return nvtx


class Marks:
    """The ranges that are open: none, the profile's, or one step's in it.

    Without `whole` the profile has no range of its own: CUDA's profiler calls say where it begins and ends.
    """

    def __init__(self, nvtx: Any, whole: bool = True) -> None:
        self._nvtx, self._whole = nvtx, whole
        self._runs = self._stepping = False

    def begin(self) -> None:
        """The profile begins."""
        if self._whole:
            self._nvtx.push_range("profile", domain=DOMAIN)
        self._runs = True

    def step(self, number: int) -> None:
        """The step `number` begins, and ends the one before; outside a profile nothing does."""
        self.pause()
        if self._runs:
            self._nvtx.push_range("step", domain=DOMAIN, payload=number)
            self._stepping = True

    def pause(self) -> None:
        """The step ends."""
        if self._stepping:
            self._nvtx.pop_range(domain=DOMAIN)
            self._stepping = False

    def end(self) -> None:
        """The profile ends."""
        self.pause()
        if self._runs and self._whole:
            self._nvtx.pop_range(domain=DOMAIN)
        self._runs = False
