"""Run llmbx commands in an isolated install."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from llmbx.api import Result, Step
from llmbx.api.verbs import Run

from .isolation import Isolated

LLMBX = ("-m", "llmbx")
RUNS = "workloads/*/experiments/*/*/*/run.json"

HANGS = "has been running for"
"""In a line about a call that does not return."""


@dataclasses.dataclass(frozen=True)
class Done:
    """A command that has ended."""

    exit_code: int
    """Its exit code."""
    stdout: str
    """What it printed: the result."""
    stderr: str
    """Progress, notes and errors."""
    folder: Path | None = None
    """The run folder that it created; None if it created none or several."""

    @property
    def result(self) -> Result:
        """The run's `result.json`.

        Raises `AssertionError` with the command's stderr if there is none.
        """
        result = self._run().read_result()
        if result is None:
            raise AssertionError(f"the run has no result; stderr: {self.stderr}")
        return result

    @property
    def steps(self) -> list[Step]:
        """The steps of the run's log."""
        return self._run().read_steps()

    @property
    def log(self) -> str:
        """The run's training log."""
        return self._run().log.read_text(errors="replace", encoding="utf-8")

    def _run(self) -> Run:
        if self.folder is None:
            ended = f"llmbx ended with exit code {self.exit_code}: {self.stderr}"
            raise AssertionError(f"no run was created; {ended}")
        return Run.read(self.folder)


def command(
    place: Isolated,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    cwd: Path | None = None,
) -> Done:
    """Run `llmbx ARGUMENTS` in its own process, with `env` added to the variables of `place`.

    Raises `subprocess.TimeoutExpired` after `timeout` seconds.
    """
    before = _runs(place)
    process = subprocess.Popen(
        [sys.executable, "-P", *LLMBX, *arguments],
        env=place.environ(os.environ, env),
        cwd=cwd or place.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    lines: list[str] = []
    reader = threading.Thread(target=_relay, args=(process.stderr, lines))
    reader.start()
    process.stderr = None  # it is the reader's
    try:
        out, _ = process.communicate(timeout=timeout)
    finally:
        process.kill()
        reader.join()
    made = _runs(place) - before
    folder = made.pop() if len(made) == 1 else None
    return Done(process.returncode, out, "".join(lines), folder)


def _relay(errors: IO[str] | None, lines: list[str]) -> None:
    """Collect the lines of standard error; those about a call that hangs are shown at once."""
    for line in errors or ():
        lines.append(line)
        if HANGS in line:
            print(line, end="", file=sys.stderr, flush=True)


def _runs(place: Isolated) -> set[Path]:
    return {record.parent for record in place.path.glob(RUNS)}
