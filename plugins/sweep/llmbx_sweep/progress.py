"""Progress of a sweep on stderr: one line for each run that ends, and on a terminal the numbers of the others."""

from __future__ import annotations

import sys
from typing import Any

from llmbx.api import Result
from llmbx.api.verbs import Run, Runner, control_code
from llmbx.api.verbs import RunProgress as Progress

from .state import Slot


class SweepProgress:
    """Prints the progress of a sweep of `runs` runs. `out` is a text stream (default: stderr)."""

    def __init__(self, runs: int, out: Any = None) -> None:
        self.runs = runs
        self.out = out or sys.stderr
        self.is_terminal = bool(self.out.isatty())

    def ended(self, slot: Slot, result: Result, ended: int, running: int, waiting: int) -> None:
        """Print one line for a run that has ended and, on a terminal, a status line that is overwritten."""
        self.note(f"[{ended}/{self.runs}] {slot[0]} #{slot[1]}: {_outcome(result)}")
        if self.is_terminal and ended < self.runs:
            print(f"  {running} submitted, {waiting} waiting", end="", file=self.out, flush=True)

    def note(self, text: str) -> None:
        """Print one line."""
        if self.is_terminal:
            control_code(self.out, "\r\x1b[2K")
        print(text, file=self.out, flush=True)

    def attend(self, run: Run, runner: Runner) -> Result:
        """Follow one run to its end, with the same live progress as `llmbx run`."""
        progress = Progress(run.record.spec, self.out)
        progress.note(f"started {run.record.id}")
        try:
            return runner.attend(run, progress)
        finally:
            progress.close()


def _outcome(result: Result) -> str:
    if result.status != "completed":
        return f"{result.status}: {result.cause}" if result.cause else result.status
    mean = result.step_time_s.mean
    return f"completed, {mean:.4g} s/step" if mean is not None else "completed"
