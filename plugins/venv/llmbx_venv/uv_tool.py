"""Install packages with uv: it downloads in parallel and links packages from its cache.

uv gets the user's pip settings; the user's own UV_* variables take precedence. If uv fails, pip installs instead.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from llmbx.errors import UsageError
from llmbx.runtimes.base import Progress

INSTALLER = "LLMBX_INSTALLER"
"""The variable that chooses: `pip`, `uv`, or `auto`."""

_DOWNLOAD = re.compile(r"\s*(Downloading|Building) (\S+)(?: \(([\d.]+ ?[kMG]i?B)\))?")
_DONE = re.compile(r"\s*(?:Downloaded|Built) (\S+)")
_ADDED = re.compile(r" \+ ([A-Za-z0-9._-]+)==(\S+)")


def uv_command(environ: Mapping[str, str]) -> str | None:
    """The uv to use, or None to use pip. Raises `UsageError` for an unknown choice, or for a missing uv."""
    choice = environ.get(INSTALLER) or "auto"
    if choice not in ("auto", "pip", "uv"):
        raise UsageError(f"{INSTALLER}={choice}: expected auto, pip or uv")
    if choice == "pip":
        return None
    found = _beside_llmbx() or shutil.which("uv", path=environ.get("PATH"))
    if found is None and choice == "uv":
        raise UsageError(f"{INSTALLER}=uv: there is no uv on PATH or beside llmbx (`pip install uv`)")
    return found


def _beside_llmbx() -> str | None:
    """The program of the package `uv` in llmbx's own environment."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, OSError):
        return None


def uv_environment(env: Mapping[str, str], places: Mapping[str, str]) -> dict[str, str]:
    """The environment for uv: `env` with pip's settings (`places`, by option name) in uv's variables, and one retry.

    Missing local folders are left out: pip only warns about them, uv fails.
    """
    indexes = [url for url in places.get("extra-index-url", "").split() if _is_there(url)]
    links = [link for link in places.get("find-links", "").split() if _is_there(link)]
    settings = {
        "UV_DEFAULT_INDEX": places.get("index-url", ""),
        "UV_INDEX": " ".join(indexes),
        "UV_FIND_LINKS": ",".join(links),
        "UV_INSECURE_HOST": places.get("trusted-host", ""),
        "SSL_CERT_FILE": places.get("cert", ""),
        "ALL_PROXY": places.get("proxy", ""),
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # what pip does: the best version of any index
        "UV_HTTP_RETRIES": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    return {**{name: value for name, value in settings.items() if value}, **env}


def _is_there(place: str) -> bool:
    """Whether a place to look is remote, or a folder that exists."""
    parts = urlsplit(place)
    if parts.scheme in ("", "file"):
        return Path(parts.path).exists()
    return True


def uv_arguments(
    uv: str, python: Path, requirements: Sequence[str], indexes: Sequence[str], wheels: Path, no_index: bool
) -> list[str]:
    """The argv that installs exact `requirements`, and what they need, into the environment of `python`."""
    argv = [uv, "pip", "install", "--python", str(python), "--no-config"]
    argv += ["--find-links", str(wheels)] if wheels.is_dir() else []
    argv += [part for index in indexes for part in ("--index", index)]
    argv += ["--no-index", "--offline"] if no_index else []
    return [*argv, *requirements]


def added(lines: Sequence[str]) -> dict[str, str]:
    """Version by name of what uv's output says that it installs."""
    return {found[1]: found[2] for line in lines if (found := _ADDED.match(line))}


class UvProgress:
    """Says what uv is doing as calm single lines: feed it uv's lines, and tick it."""

    EVERY_S = 1.0
    QUIET_S = 10.0

    def __init__(self, title: str, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self._progress, self._clock = title, progress, clock
        self._started = clock()
        self._said_at = self._started - self.EVERY_S
        self._said = ""
        self._open: dict[str, str] = {}
        self._now = "finding the packages"

    def line(self, text: str) -> None:
        """Take one line of uv's output."""
        if start := _DOWNLOAD.match(text):
            verb = "fetching" if start[1] == "Downloading" else "building"
            self._open[start[2]] = f"{verb} {start[2]}{f' ({start[3]})' if start[3] else ''}"
        elif done := _DONE.match(text):
            self._open.pop(done[1], None)
        elif text.startswith(("Resolved ", "Prepared ")):
            self._now = "fetching packages" if text.startswith("Resolved") else "linking packages"
        self.tick()

    def tick(self) -> None:
        """Say what goes on, when it is news and not too soon, or when nothing was said for long."""
        now = self._clock()
        what = ", ".join(list(self._open.values())[:3]) or self._now
        if len(self._open) > 3:
            what += f" and {len(self._open) - 3} more"
        since = now - self._said_at
        if since < self.EVERY_S or (what == self._said and since < self.QUIET_S):
            return
        self._said, self._said_at = what, now
        self._progress(f"{self.title}: {what}, {now - self._started:.0f} s")
