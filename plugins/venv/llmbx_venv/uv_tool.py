"""Install packages with uv, which downloads in parallel and links packages from its cache.

uv gets the user's pip settings; the user's UV_* variables take precedence. If uv fails, pip is used instead.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from llmbx.api import Progress, UsageError

from .settings import INSTALLER

_DOWNLOAD = re.compile(r"\s*(Downloading|Building) (\S+)(?: \(([\d.]+ ?[kMG]i?B)\))?")
_DONE = re.compile(r"\s*(?:Downloaded|Built) (\S+)")
_ADDED = re.compile(r" \+ ([A-Za-z0-9._-]+)==(\S+)")


def uv_command(environ: Mapping[str, str]) -> str | None:
    """The path of uv, or None to use pip. Raises `UsageError` for an invalid choice, or if uv is missing."""
    choice = environ.get(INSTALLER) or "auto"
    if choice not in ("auto", "pip", "uv"):
        raise UsageError(f"{INSTALLER}={choice}: expected auto, pip or uv")
    if choice == "pip":
        return None
    found = _beside_llmbx() or shutil.which("uv", path=environ.get("PATH"))
    if found is None and choice == "uv":
        raise UsageError(f"{INSTALLER}=uv: uv is not on PATH or in llmbx's environment (`pip install uv`)")
    return found


def _beside_llmbx() -> str | None:
    """The program of the package `uv` in llmbx's environment, if it is installed there."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, OSError):
        return None


def uv_environment(env: Mapping[str, str], pip_options: Mapping[str, str]) -> dict[str, str]:
    """The environment variables for uv: `env`, and `pip_options` converted to uv's variables; one retry.

    Missing local folders are omitted, because pip only warns about them while uv fails.
    """
    indexes = [url for url in pip_options.get("extra-index-url", "").split() if _is_available(url)]
    links = [link for link in pip_options.get("find-links", "").split() if _is_available(link)]
    settings = {
        "UV_DEFAULT_INDEX": pip_options.get("index-url", ""),
        "UV_INDEX": " ".join(indexes),
        "UV_FIND_LINKS": ",".join(links),
        "UV_INSECURE_HOST": pip_options.get("trusted-host", ""),
        "SSL_CERT_FILE": pip_options.get("cert", ""),
        "ALL_PROXY": pip_options.get("proxy", ""),
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # like pip: the best version of all indexes
        "UV_HTTP_RETRIES": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    return {**{name: value for name, value in settings.items() if value}, **env}


def _is_available(source: str) -> bool:
    """Whether a package source is remote or an existing folder."""
    parts = urlsplit(source)
    if parts.scheme in ("", "file"):
        return Path(parts.path).exists()
    return True


def uv_arguments(
    uv: str, python: Path, requirements: Sequence[str], indexes: Sequence[str], wheels: Path, no_index: bool
) -> list[str]:
    """The argv that installs exact `requirements` and their dependencies into the environment of `python`."""
    argv = [uv, "pip", "install", "--python", str(python), "--no-config"]
    argv += ["--find-links", str(wheels)] if wheels.is_dir() else []
    argv += [part for index in indexes for part in ("--index", index)]
    argv += ["--no-index", "--offline"] if no_index else []
    return [*argv, *requirements]


def added(lines: Sequence[str]) -> dict[str, str]:
    """Version by name of the packages that uv installed, from its output."""
    return {found[1]: found[2] for line in lines if (found := _ADDED.match(line))}


class UvProgress:
    """Reports the progress of uv in single lines. Pass uv's output to `line`, and call `tick` regularly."""

    EVERY_S = 1.0
    QUIET_S = 10.0

    def __init__(self, title: str, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self._progress, self._clock = title, progress, clock
        self._started = clock()
        self._reported_at = self._started - self.EVERY_S
        self._reported = ""
        self._open: dict[str, str] = {}
        self._activity = "resolving packages"

    def line(self, text: str) -> None:
        """Process one line of uv's output."""
        if start := _DOWNLOAD.match(text):
            verb = "downloading" if start[1] == "Downloading" else "building"
            self._open[start[2]] = f"{verb} {start[2]}{f' ({start[3]})' if start[3] else ''}"
        elif done := _DONE.match(text):
            self._open.pop(done[1], None)
        elif text.startswith(("Resolved ", "Prepared ")):
            self._activity = "downloading packages" if text.startswith("Resolved") else "linking packages"
        self.tick()

    def tick(self) -> None:
        """Report the current activity if it changed, at most every `EVERY_S` seconds, or after `QUIET_S` seconds."""
        now = self._clock()
        what = ", ".join(list(self._open.values())[:3]) or self._activity
        if len(self._open) > 3:
            what += f" and {len(self._open) - 3} more"
        since = now - self._reported_at
        if since < self.EVERY_S or (what == self._reported and since < self.QUIET_S):
            return
        self._reported, self._reported_at = what, now
        self._progress(f"{self.title}: {what}, {now - self._started:.0f} s")
