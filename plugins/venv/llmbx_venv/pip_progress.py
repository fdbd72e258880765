"""Report the progress of pip in single lines, from its output and from the packages installed so far."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from llmbx.api import Progress, environments

EVERY_S = 1.0
"""Minimum time between two progress lines, in seconds."""

QUIET_S = 10.0
"""The last line is repeated with the elapsed time after this many seconds without a change."""

_FETCH = re.compile(r"\s*(?:Collecting|Processing) (\S+)")
_SIZE = re.compile(r"\s*(?:Downloading|Using cached) (\S+) \(([\d.]+ [kMG]?B)\)")
_INSTALL = re.compile(r"Installing collected packages: (.+)")
_BUILD = re.compile(r"\s*Building wheels? for (?:collected packages: )?(\S+)")


class PipProgress:
    """Reports the progress of one pip command through `progress`.

    The caller passes pip's output to `line` and calls `tick` regularly. `installed` returns the installed packages; it
    is called during installation, when pip prints nothing.
    """

    def __init__(
        self,
        title: str,
        progress: Progress,
        installed: Callable[[], set[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title = title
        self.seen = 0
        self._progress, self._installed, self._clock = progress, installed, clock
        self._started = clock()
        self._reported_at = self._started - EVERY_S
        self._reported = self._activity = "starting pip"
        self._queue: list[str] = []

    def line(self, text: str) -> None:
        """Process one line of pip's output."""
        if fetch := _FETCH.match(text):
            self.seen += 1
            self._activity = f"downloading {_short(fetch[1])}, package {self.seen}"
        elif size := _SIZE.match(text):
            self._activity = f"downloading {_short(size[1])} ({size[2]}), package {self.seen}"
        elif build := _BUILD.match(text):
            self._activity = f"building {build[1]}"
        elif install := _INSTALL.match(text):
            self._queue = [environments.normal_name(name) for name in install[1].split(",")]
        self.tick()

    def tick(self) -> None:
        """Report the current activity if it changed, at most every `EVERY_S` seconds, or after `QUIET_S` seconds."""
        now = self._clock()
        if now - self._reported_at < EVERY_S:
            return
        if self._queue:
            self._activity = self._installing()
        if self._activity != self._reported or now - self._reported_at >= QUIET_S:
            self._reported, self._reported_at = self._activity, now
            self._progress(f"{self.title}: {self._activity}, {now - self._started:.0f} s")

    def _installing(self) -> str:
        installed = self._installed()
        left = [name for name in self._queue if name not in installed]
        done = len(self._queue) - len(left)
        return f"installing {left[0] if left else 'the last files'}, {done} of {len(self._queue)} packages done"


def complete_packages(site: Path) -> set[str]:
    """Normalized names of the packages in `site` that are installed completely (pip writes INSTALLER last)."""
    return {environments.normal_name(marker.parent.name.split("-")[0]) for marker in site.glob("*.dist-info/INSTALLER")}


def _short(what: str) -> str:
    """`torch 2.13.0+cpu` from a requirement, or a wheel's file name or URL."""
    name = what.rsplit("/", 1)[-1].replace("%2B", "+")
    if name.endswith((".whl", ".tar.gz", ".zip")):
        parts = re.sub(r"\.(whl|tar\.gz|zip)$", "", name).split("-")
        return " ".join(parts[:2])
    return name.replace("==", " ")
