"""NVTX ranges for an external profiler: `profile` around the profiled steps, and `step` with its number around each."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from llmbx.entry import seen
from llmbx.entry.rank import say

DOMAIN = "llmbx"
"""NVTX domain of the ranges."""

RECORD = "LLMBX_PROFILER_NVTX"
"""Variable with the file in which an external profiler wants to know the rank's nvtx; unset without such a profiler."""


def nvtx_module() -> Any:
    """The module nvtx, or None with a log line if it is not installed. The profiler gets to know which."""
    try:
        import nvtx
    except ImportError:
        say(f"nvtx is not installed for {sys.executable}: the profile has no step ranges")
        _record(None)
        return None
    _record(seen.versions(("nvtx",)).get("nvtx", "unknown"))
    return nvtx


def _record(version: str | None) -> None:
    """Write the version of nvtx (None: not installed) and the interpreter for the profiler's report on its profile."""
    if file := os.environ.get(RECORD):
        Path(file).write_text(json.dumps({"nvtx": version, "python": sys.executable}) + "\n", encoding="utf-8")


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
