"""Install packages with uv, which downloads in parallel and links packages from its cache.

uv gets the user's pip settings; the user's UV_* variables take precedence.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from llmbx.api import Progress, UsageError, Value

_DOWNLOAD = re.compile(r"\s*(Downloading|Building) (\S+)(?: \(([\d.]+ ?[kMG]i?B)\))?")
_DONE = re.compile(r"\s*(?:Downloaded|Built) (\S+)")
_ADDED = re.compile(r" \+ [A-Za-z0-9._-]+==(\S+)")


class Uv(Value, frozen=True):
    """uv with the user's settings.

    `path`: its program; `env`: its environment variables; `configured`: names of the options in pip's settings;
    `no_index`: whether only folders and pages of files are searched.
    """

    path: str
    env: dict[str, str]
    configured: tuple[str, ...] = ()
    no_index: bool = False

    def without_further_indexes(self) -> Uv:
        """The same with the main index alone."""
        env = {name: value for name, value in self.env.items() if name != "UV_INDEX"}
        return self.replace(env=env)

    def install(
        self, python: Path, arguments: Sequence[str], indexes: Sequence[str], wheels: Path
    ) -> list[str]:
        """The argv that installs requirements into the environment of `python`; `wheels` is one of the sources."""
        argv = [self.path, "pip", "install", "--python", str(python), "--no-config"]
        argv += ["--find-links", str(wheels)] if wheels.is_dir() else []
        argv += [part for index in indexes for part in ("--index", index)]
        argv += ["--no-index"] if self.no_index else []
        return [*argv, *arguments]


def find_program(environ: Mapping[str, str]) -> str | None:
    """The path of uv in llmbx's environment, or on PATH."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, OSError):
        return shutil.which("uv", path=environ.get("PATH"))


def require_program(environ: Mapping[str, str]) -> str:
    """The path of uv. Raises `UsageError` if it is not installed."""
    path = find_program(environ)
    if path is None:
        raise UsageError(
            "uv, which builds environments, is not on PATH or in llmbx's environment: install it (`pip install uv`; "
            "other systems than Linux and macOS: docs.astral.sh/uv), or choose another runtime with --runtime"
        )
    return path


def uv_environment(
    env: Mapping[str, str], pip_options: Mapping[str, str], offline: bool = False
) -> dict[str, str]:
    """The environment variables for uv: `env`, and `pip_options` converted to uv's variables; one retry.

    Missing local folders are omitted, because pip only warns about them while uv fails. With `offline`, uv uses no
    network.
    """
    indexes = [url for url in pip_options.get("extra-index-url", "").split() if _is_available(url)]
    links = [link for link in pip_options.get("find-links", "").split() if _is_available(link)]
    settings = {
        "UV_DEFAULT_INDEX": pip_options.get("index-url", ""),
        "UV_INDEX": " ".join(indexes),
        "UV_FIND_LINKS": ",".join(link for link in links if _is_local(link) or not offline),
        "UV_INSECURE_HOST": pip_options.get("trusted-host", ""),
        "SSL_CERT_FILE": pip_options.get("cert", ""),
        "ALL_PROXY": pip_options.get("proxy", ""),
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # like pip: the best version of all indexes
        "UV_HTTP_RETRIES": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    fixed = {"UV_OFFLINE": "1"} if offline else {}
    return {**{name: value for name, value in settings.items() if value}, **env, **fixed}


def _is_available(source: str) -> bool:
    """Whether a package source is remote or an existing folder."""
    return not _is_local(source) or Path(urlsplit(source).path).exists()


def _is_local(source: str) -> bool:
    return urlsplit(source).scheme in ("", "file")


def first_version(lines: Sequence[str]) -> str | None:
    """The version of the first package that uv installs, from its output."""
    return next((added[1] for line in lines if (added := _ADDED.match(line))), None)


class UvProgress:
    """Reports the progress of uv in single lines. Pass uv's output to `line`, and call `tick` regularly."""

    EVERY_S = 1.0
    QUIET_S = 10.0

    def __init__(
        self, title: str, progress: Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
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
            self._activity = (
                "downloading packages" if text.startswith("Resolved") else "linking packages"
            )
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
