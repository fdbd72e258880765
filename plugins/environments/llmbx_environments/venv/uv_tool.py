"""uv, which installs packages and resolves requirements, with the settings of the user's pip."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from llmbx.api import Progress, UsageError, Value

from .pip_settings import configured_options, pip_environment

LEAST = (0, 12, 11)
"""The oldest release that accepts `===` beside a digest."""

_START = re.compile(r"\s*(Downloading|Building) (\S+)(?: \(([\d.]+ ?[kMG]i?B)\))?")
_END = re.compile(r"\s*(?:Downloaded|Built) (\S+)")
_ADDED = re.compile(r" \+ [A-Za-z0-9._-]+==(\S+)")


class Uv(Value, frozen=True):
    """uv with the user's settings.

    `path`: its program; `env`: its environment variables; `configured`: names of the options in
    pip's settings; `no_index`: whether only folders and pages of files are searched.
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
        """The argv that installs into the environment of `python`, also from `wheels`."""
        argv = [self.path, "pip", "install", "--python", str(python), "--no-config"]
        if wheels.is_dir():
            argv += ["--find-links", str(wheels)]
        for index in indexes:
            argv += ["--index", index]
        if self.no_index:
            argv.append("--no-index")
        return [*argv, *arguments]


def configured_uv(environ: Mapping[str, str], temporary: Path, offline: bool = False) -> Uv:
    """uv with pip's settings and the variables `environ`. Raises `UsageError` without uv.

    `temporary` is the folder for temporary files.
    """
    program = require_program(environ)
    env = pip_environment(environ, temporary)
    options = configured_options(env)
    return Uv(
        path=program,
        env=uv_environment(env, options, offline),
        configured=tuple(options),
        no_index=offline or "no-index" in options,
    )


def find_program(environ: Mapping[str, str]) -> str | None:
    """The path of uv in llmbx's environment, or on PATH."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, OSError):
        return shutil.which("uv", path=environ.get("PATH"))


def require_program(environ: Mapping[str, str]) -> str:
    """The path of uv. Raises `UsageError` if it is not installed, or too old."""
    path = find_program(environ)
    if path is None:
        raise UsageError(
            "uv, which builds environments, is not on PATH or in llmbx's environment: install it "
            "(`pip install uv`; other systems than Linux and macOS: docs.astral.sh/uv), or choose "
            "another runtime with --runtime"
        )
    if (version := _version(path)) is not None and version < LEAST:
        raise UsageError(
            f"{path} is uv {_dotted(version)}, and building environments needs {_dotted(LEAST)} "
            "or newer: update it (`pip install --upgrade uv`, or `uv self update`)"
        )
    return path


def _version(path: str) -> tuple[int, ...] | None:
    """The release of a uv; None if it does not say."""
    printed = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=False
    ).stdout
    numbers = re.match(r"uv (\d+)\.(\d+)\.(\d+)", printed)
    return tuple(int(number) for number in numbers.groups()) if numbers else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def uv_environment(
    env: Mapping[str, str], options: Mapping[str, str], offline: bool = False
) -> dict[str, str]:
    """The environment variables for uv: pip's `options` as uv's, and `env`, which has precedence.

    Missing local folders are omitted, because pip only warns about them while uv fails. With
    `offline`, uv uses no network.
    """
    indexes = [url for url in options.get("extra-index-url", "").split() if _exists(url)]
    links = [link for link in options.get("find-links", "").split() if _exists(link)]
    if offline:
        links = [link for link in links if _is_local(link)]
    settings = {
        "UV_DEFAULT_INDEX": options.get("index-url", ""),
        "UV_INDEX": " ".join(indexes),
        "UV_FIND_LINKS": ",".join(links),
        "UV_INSECURE_HOST": options.get("trusted-host", ""),
        "SSL_CERT_FILE": options.get("cert", ""),
        "ALL_PROXY": options.get("proxy", ""),
        "UV_INDEX_STRATEGY": "unsafe-best-match",  # like pip: the best version of all indexes
        "UV_HTTP_RETRIES": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    merged = {**{name: value for name, value in settings.items() if value}, **env}
    return {**merged, "UV_OFFLINE": "1"} if offline else merged


def _exists(source: str) -> bool:
    """Whether a package source is remote or an existing folder."""
    return not _is_local(source) or Path(urlsplit(source).path).exists()


def _is_local(source: str) -> bool:
    return urlsplit(source).scheme in ("", "file")


def first_version(lines: Sequence[str]) -> str | None:
    """The version of the first package that uv installs, from its output."""
    return next((added[1] for line in lines if (added := _ADDED.match(line))), None)


class UvProgress:
    """Reports the progress of uv in single lines: pass its output to `line`, and call `tick`."""

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
        if start := _START.match(text):
            verb, package, size = start.groups()
            self._open[package] = f"{verb.lower()} {package}{f' ({size})' if size else ''}"
        elif end := _END.match(text):
            self._open.pop(end[1], None)
        elif text.startswith("Resolved "):
            self._activity = "downloading packages"
        elif text.startswith("Prepared "):
            self._activity = "linking packages"
        self.tick()

    def tick(self) -> None:
        """Report the activity if it changed (at most every `EVERY_S`), or after `QUIET_S`."""
        now = self._clock()
        activity = ", ".join(list(self._open.values())[:3]) or self._activity
        if len(self._open) > 3:
            activity += f" and {len(self._open) - 3} more"
        wait = self.QUIET_S if activity == self._reported else self.EVERY_S
        if now - self._reported_at >= wait:
            self._reported, self._reported_at = activity, now
            self._progress(f"{self.title}: {activity}, {now - self._started:.0f} s")
