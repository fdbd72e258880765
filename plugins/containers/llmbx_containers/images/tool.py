"""How a container tool makes image files and starts something in them: the few commands that the engine needs."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from llmbx.codec import decode
from llmbx.errors import InfraError, UsageError
from llmbx.model import Value
from llmbx.runtimes.base import Progress
from llmbx.toml_file import NOT_JSON

from ..naming import Reference
from .retry import Passing, is_passing

PROBE = """\
version=$(python3 --version) || exit
echo "llmbx-python ${version#Python }"
facts=''
[ ! -f /opt/llmbx/environment.json ] || read -r facts < /opt/llmbx/environment.json
[ -z "$facts" ] || printf 'llmbx-versions %s\\n' "$facts"\
"""
"""POSIX sh that asks an image for its Python, and an image that llmbx built for the packages in it. Python itself would
take three times as long for it as for saying its version."""

REPORT_S = 10.0

_NO_PROGRAM = re.compile(r"not found|no such file|executable file", re.IGNORECASE)
_NO_ROOM = re.compile(r"no space left|disk quota exceeded|file system full", re.IGNORECASE)


class Command(Value, frozen=True):
    """One command of a container tool, and the variables that it needs besides the user's."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}


@dataclasses.dataclass(frozen=True)
class FileTool:
    """A container tool whose images are files.

    `importing(reference, output, scratch)` makes the file `output` of an image in a registry, `converting(archive,
    output, scratch)` of a Docker archive (None: it cannot), `starting(file)` is what a program's argv is put after to
    run in the image.
    """

    name: str
    suffix: str
    importing: Callable[[Reference, Path, Path], Command]
    starting: Callable[[Path], Command]
    converting: Callable[[Path, Path, Path], Command] | None = None


def run_import(command: Command, scratch: Path, what: str, deadline: float, progress: Progress) -> None:
    """Run one import to its end.

    Raises `Passing` for a failure that sounds like the network or the registry, `InfraError` for every other one and
    when `deadline` (monotonic seconds) passes; the tool and all its children are gone then.
    """
    from llmbx.runtimes.children import follow

    said: list[str] = []
    clock = _Clock(scratch, what, deadline, progress)

    def line(text: str) -> None:
        if text.strip():
            said.append(text.strip())
            del said[:-40]

    try:
        code = follow(command.argv, {**os.environ, **command.env}, scratch, line, clock.tick)
    except FileNotFoundError:
        raise InfraError(f"{command.argv[0]} is not on PATH: install it, or choose another --runtime") from None
    if code != 0:
        raise explain(f"{Path(command.argv[0]).name} ended with {code}", said, scratch)


def explain(what: str, said: list[str], folder: Path) -> InfraError:
    """The error for a tool that failed, by the last lines that it said."""
    text = "\n".join(said)
    if _NO_ROOM.search(text):
        return InfraError(
            f"{what}: no space left in {folder.parent} or in the tool's temporary folder: free some space "
            f"(`llmbx image prune`) and start again"
        )
    signs = (r"^\W*fatal", r"error|denied|unknown|fail")
    last = next((line for sign in signs for line in reversed(said) if re.search(sign, line, re.I)), None)
    reason = f"{what}: {_plain(last or (said[-1] if said else 'no reason given'))}"
    return Passing(reason) if is_passing(text) else InfraError(reason)


def python_versions(command: Command, reference: str) -> dict[str, str] | None:
    """Versions of python3 and, where the image says, of its main packages; None when no container could be started.

    Raises `UsageError` when the image has no python3, or no shell to start it with.
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
        return {**_told(done.stdout), "python": found[1]}
    for name, what in (("python3", "python3 on its PATH"), ("/bin/sh", "/bin/sh")):
        lines = [line for line in done.stderr.splitlines() if name in line]
        if any(_NO_PROGRAM.search(line) for line in lines):
            raise UsageError(f"the image {reference} has no {what}, with which llmbx starts programs")
    return None


def _told(said: str) -> dict[str, str]:
    """The versions of packages that an image names; nothing when what it names cannot be read."""
    found = re.search(r"^llmbx-versions (.+)$", said, re.MULTILINE)
    try:
        return decode(found[1], dict[str, str]) if found else {}
    except NOT_JSON:
        return {}


def end_leftovers(folder: Path) -> None:
    """Stop what a killed import left running: processes of this user whose command names `folder`."""
    import psutil

    for process in psutil.process_iter(["cmdline", "uids"]):
        uids = process.info["uids"]
        mine = uids and uids.real == os.getuid() and process.pid != os.getpid()
        if mine and any(str(folder) in part for part in process.info["cmdline"] or ()):
            with suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
                process.wait(5)


class _Clock:
    """Says now and then how far an import is, and ends it at its deadline."""

    def __init__(self, scratch: Path, what: str, deadline: float, progress: Progress) -> None:
        self.scratch, self.what, self.deadline, self.progress = scratch, what, deadline, progress
        self.began = self.said = time.monotonic()
        self.free = self._free()

    def tick(self) -> None:
        now = time.monotonic()
        if now >= self.deadline:
            from .limits import TIMEOUT

            spent = f"{now - self.began:.0f} s"
            raise InfraError(f"{self.what}: not done after {spent}, the time limit; {TIMEOUT} raises it")
        if now - self.said >= REPORT_S:
            from llmbx.cli.words import size

            self.said = now
            written = self.free - self._free()
            much = f", about {size(written)} written" if written > 0 else ""
            self.progress(f"{self.what}: {now - self.began:.0f} s{much}")

    def _free(self) -> int:
        import shutil

        return shutil.disk_usage(self.scratch).free


def _plain(line: str) -> str:
    """A tool's line without its prefix and colours."""
    return re.sub(r"\x1b\[[0-9;]*m|^(?:FATAL|ERROR|\[ERROR\]|\[INFO\]):?\s*", "", line).strip()
