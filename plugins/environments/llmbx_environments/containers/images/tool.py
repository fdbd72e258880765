"""Container tools: the commands that create image files, and how they are run."""

from __future__ import annotations

import os
import re
import shutil
import time
from abc import ABC, abstractmethod
from pathlib import Path

from llmbx.api import InfraError, Progress, Value, follow_process, format_bytes

from ..naming import Reference
from ..settings import TIMEOUT
from .transient import TransientError, is_transient

REPORT_S = 10.0

_NO_ROOM = re.compile(r"no space left|disk quota exceeded|file system full", re.IGNORECASE)
_PREFIX = re.compile(r"\x1b\[[0-9;]*m|^(?:FATAL|ERROR|\[ERROR\]|\[INFO\]):?\s*")


class Command(Value, frozen=True):
    """One command of a container tool, and the variables that it needs besides the user's."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}


class FileTool(ABC):
    """A container tool whose images are files with the suffix `suffix`."""

    name: str
    suffix: str

    @abstractmethod
    def import_command(
        self, reference: Reference, output: Path, scratch: Path, plain_http: bool
    ) -> Command:
        """The command that creates `output` from an image in a registry."""

    @abstractmethod
    def start_command(self, file: Path) -> Command:
        """The prefix of a program's argv that runs it in the image."""

    def convert_command(self, archive: Path, output: Path, scratch: Path) -> Command:
        """The command that creates `output` from a Docker archive, or an `InfraError`."""
        raise InfraError(f"{self.name} does not convert Docker archives")


def run_import(
    command: Command, scratch: Path, title: str, deadline: float, progress: Progress
) -> None:
    """Run one import command and wait for it.

    Raises `TransientError` for a failure of the network or the registry, `InfraError` for others
    and if `deadline` (monotonic seconds) passes; the tool and its children are terminated first.
    """
    output: list[str] = []
    clock = _Clock(scratch, title, deadline, progress)

    def keep(text: str) -> None:
        if text.strip():
            output.append(text.strip())
            del output[:-40]

    program = command.argv[0]
    try:
        code = follow_process(
            command.argv, {**os.environ, **command.env}, scratch, keep, clock.tick
        )
    except FileNotFoundError:
        advice = "install it, or choose another --runtime"
        raise InfraError(f"{program} is not on PATH: {advice}") from None
    if code != 0:
        raise explain(f"{Path(program).name} exited with code {code}", output, scratch)


def explain(title: str, output: list[str], folder: Path) -> InfraError:
    """The error for a failed tool, from the last lines of its output."""
    text = "\n".join(output)
    if _NO_ROOM.search(text):
        return InfraError(
            f"{title}: no space left in {folder.parent} or in the tool's temporary folder: free "
            f"some space (`llmbx image prune`) and retry"
        )
    reason = f"{title}: {_PREFIX.sub('', _telling_line(output)).strip()}"
    return TransientError(reason) if is_transient(text) else InfraError(reason)


def _telling_line(output: list[str]) -> str:
    """The last line that looks like an error, else the last one."""
    for sign in (r"^\W*fatal", r"error|denied|unknown|fail"):
        for line in reversed(output):
            if re.search(sign, line, re.IGNORECASE):
                return line
    return output[-1] if output else "no error output"


class _Clock:
    """Reports the progress of an import periodically, and aborts it at its deadline."""

    def __init__(self, scratch: Path, title: str, deadline: float, progress: Progress) -> None:
        self.scratch, self.title, self.deadline = scratch, title, deadline
        self.progress = progress
        self.began = self.reported = time.monotonic()
        self.free = shutil.disk_usage(scratch).free

    def tick(self) -> None:
        now = time.monotonic()
        spent = f"{now - self.began:.0f} s"
        if now >= self.deadline:
            advice = f"set {TIMEOUT} to allow more time"
            raise InfraError(f"{self.title}: timed out after {spent}; {advice}")
        if now - self.reported >= REPORT_S:
            self.reported = now
            written = self.free - shutil.disk_usage(self.scratch).free
            size = f", about {format_bytes(written)} written" if written > 0 else ""
            self.progress(f"{self.title}: {spent}{size}")
