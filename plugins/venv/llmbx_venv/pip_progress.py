"""What pip is doing, as calm single lines: read from its output and from what already lies in the environment."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from llmbx.catalog.environments import normal_name
from llmbx.runtimes.base import Progress

EVERY_S = 1.0
"""The least time between two lines of progress."""

QUIET_S = 10.0
"""After this long without news the last line is said again, with the time that passed."""

_FETCH = re.compile(r"\s*(?:Collecting|Processing) (\S+)")
_SIZE = re.compile(r"\s*(?:Downloading|Using cached) (\S+) \(([\d.]+ [kMG]?B)\)")
_INSTALL = re.compile(r"Installing collected packages: (.+)")
_BUILD = re.compile(r"\s*Building wheels? for (?:collected packages: )?(\S+)")


class PipProgress:
    """Follows one pip invocation: feed it pip's lines and tick it; it says what goes on through `progress`.

    `installed` counts complete packages: it is asked while pip installs, because pip itself is silent then.
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
        self._said_at = self._started - EVERY_S
        self._said = self._now = "starting pip"
        self._queue: list[str] = []

    def line(self, text: str) -> None:
        """Take one line of pip's output."""
        if fetch := _FETCH.match(text):
            self.seen += 1
            self._now = f"fetching {_short(fetch[1])}, package {self.seen}"
        elif size := _SIZE.match(text):
            self._now = f"fetching {_short(size[1])} ({size[2]}), package {self.seen}"
        elif build := _BUILD.match(text):
            self._now = f"building {build[1]}"
        elif install := _INSTALL.match(text):
            self._queue = [normal_name(name) for name in install[1].split(",")]
        self.tick()

    def tick(self) -> None:
        """Say what goes on, when it is news and not too soon, or when nothing was said for long."""
        now = self._clock()
        if now - self._said_at < EVERY_S:
            return
        if self._queue:
            self._now = self._installing()
        if self._now != self._said or now - self._said_at >= QUIET_S:
            self._said, self._said_at = self._now, now
            self._progress(f"{self.title}: {self._now}, {now - self._started:.0f} s")

    def _installing(self) -> str:
        there = self._installed()
        left = [name for name in self._queue if name not in there]
        done = len(self._queue) - len(left)
        return f"installing {left[0] if left else 'the last files'}, {done} of {len(self._queue)} packages done"


def complete_packages(site: Path) -> set[str]:
    """Normalised names of the packages in `site` that pip has finished (it writes INSTALLER after all files)."""
    return {normal_name(marker.parent.name.split("-")[0]) for marker in site.glob("*.dist-info/INSTALLER")}


def _short(what: str) -> str:
    """`torch 2.13.0+cpu` from a requirement, a wheel's file name or its address."""
    name = what.rsplit("/", 1)[-1].replace("%2B", "+")
    if name.endswith((".whl", ".tar.gz", ".zip")):
        parts = re.sub(r"\.(whl|tar\.gz|zip)$", "", name).split("-")
        return " ".join(parts[:2])
    return name.replace("==", " ")
