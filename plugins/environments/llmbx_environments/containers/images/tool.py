"""Run container tools: commands that create image files and start programs in them."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from llmbx.api import NOT_JSON, InfraError, Progress, UsageError, Value, decode, format_bytes

from ..naming import Reference
from .transient import TransientError, is_transient

PROBE = """\
version=$(python3 --version) || exit
echo "llmbx-python ${version#Python }"
facts=''
[ ! -f /opt/llmbx/environment.json ] || read -r facts < /opt/llmbx/environment.json
[ -z "$facts" ] || printf 'llmbx-versions %s\\n' "$facts"\
"""
"""POSIX sh that prints the Python version of an image, and the packages of an image that llmbx built. Listing the
packages with Python itself would take three times as long as printing its version."""

REPORT_S = 10.0

_NO_PROGRAM = re.compile(r"not found|no such file|executable file", re.IGNORECASE)
_NO_ROOM = re.compile(r"no space left|disk quota exceeded|file system full", re.IGNORECASE)


class Command(Value, frozen=True):
    """One command of a container tool, and the variables that it needs in addition to the user's."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}


@dataclasses.dataclass(frozen=True)
class FileTool:
    """A container tool whose images are files.

    `importing(reference, output, scratch, plain_http)` creates the file `output` from an image in a registry (with
    `plain_http` without TLS), `converting(archive, output, scratch)` from a Docker archive (None: not supported).
    `starting(file)` is the prefix of a program's argv that runs it in the image.
    """

    name: str
    suffix: str
    importing: Callable[[Reference, Path, Path, bool], Command]
    starting: Callable[[Path], Command]
    converting: Callable[[Path, Path, Path], Command] | None = None


def run_import(
    command: Command, scratch: Path, title: str, deadline: float, progress: Progress
) -> None:
    """Run one import command and wait for it.

    Raises `TransientError` for a failure of the network or the registry, `InfraError` for others and if `deadline`
    (monotonic seconds) passes; the tool and its children are terminated first.
    """
    from llmbx.api import follow_process

    output: list[str] = []
    clock = _Clock(scratch, title, deadline, progress)

    def line(text: str) -> None:
        if text.strip():
            output.append(text.strip())
            del output[:-40]

    try:
        code = follow_process(
            command.argv, {**os.environ, **command.env}, scratch, line, clock.tick
        )
    except FileNotFoundError:
        raise InfraError(
            f"{command.argv[0]} is not on PATH: install it, or choose another --runtime"
        ) from None
    if code != 0:
        raise explain(f"{Path(command.argv[0]).name} exited with code {code}", output, scratch)


def explain(title: str, output: list[str], folder: Path) -> InfraError:
    """The error for a failed tool, from the last lines of its output `output`."""
    text = "\n".join(output)
    if _NO_ROOM.search(text):
        return InfraError(
            f"{title}: no space left in {folder.parent} or in the tool's temporary folder: free some space "
            f"(`llmbx image prune`) and retry"
        )
    signs = (r"^\W*fatal", r"error|denied|unknown|fail")
    last = next(
        (line for sign in signs for line in reversed(output) if re.search(sign, line, re.I)), None
    )
    reason = f"{title}: {_plain(last or (output[-1] if output else 'no error output'))}"
    return TransientError(reason) if is_transient(text) else InfraError(reason)


def python_versions(command: Command, reference: str) -> dict[str, str] | None:
    """Versions of python3 and of the packages of an image that llmbx built; None if no container could be started.

    Raises `UsageError` if the image has no python3 or no /bin/sh.
    """
    import subprocess

    argv = [*command.argv, "/bin/sh", "-c", PROBE]
    try:
        done = subprocess.run(
            argv,
            env={**os.environ, **command.env},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if found := re.search(r"^llmbx-python (\S+)$", done.stdout, re.MULTILINE):
        return {**_package_versions(done.stdout), "python": found[1]}
    for name, title in (("python3", "python3 on its PATH"), ("/bin/sh", "/bin/sh")):
        lines = [line for line in done.stderr.splitlines() if name in line]
        if any(_NO_PROGRAM.search(line) for line in lines):
            raise UsageError(
                f"the image {reference} has no {title}, which llmbx needs to start programs"
            )
    return None


def _package_versions(output: str) -> dict[str, str]:
    """The package versions in the output of `PROBE`; empty if there are none or they cannot be decoded."""
    found = re.search(r"^llmbx-versions (.+)$", output, re.MULTILINE)
    try:
        return decode(found[1], dict[str, str]) if found else {}
    except NOT_JSON:
        return {}


class _Clock:
    """Reports the progress of an import periodically, and aborts it at its deadline."""

    def __init__(self, scratch: Path, title: str, deadline: float, progress: Progress) -> None:
        self.scratch, self.title, self.deadline, self.progress = scratch, title, deadline, progress
        self.began = self.output = time.monotonic()
        self.free = self._free()

    def tick(self) -> None:
        now = time.monotonic()
        if now >= self.deadline:
            from ..settings import TIMEOUT

            spent = f"{now - self.began:.0f} s"
            raise InfraError(
                f"{self.title}: timed out after {spent}; set {TIMEOUT} to allow more time"
            )
        if now - self.output >= REPORT_S:
            self.output = now
            written = self.free - self._free()
            much = f", about {format_bytes(written)} written" if written > 0 else ""
            self.progress(f"{self.title}: {now - self.began:.0f} s{much}")

    def _free(self) -> int:
        import shutil

        return shutil.disk_usage(self.scratch).free


def _plain(line: str) -> str:
    """A line of a tool's output without its prefix and colors."""
    return re.sub(r"\x1b\[[0-9;]*m|^(?:FATAL|ERROR|\[ERROR\]|\[INFO\]):?\s*", "", line).strip()
