"""A sweep on the terminal: a line for each run that ends, and how many are still to come; all on stderr."""

from __future__ import annotations

import sys
from typing import Any

from llmbx.cli.progress import Progress
from llmbx.model import Result
from llmbx.record.folder import Run
from llmbx.run.context import RunContext
from llmbx.run.pipeline import attend

from .census import Slot


class SweepProgress:
    """Says how a sweep of `runs` runs goes."""

    def __init__(self, runs: int, out: Any = None) -> None:
        self.runs = runs
        self.out = out or sys.stderr
        self.moving = bool(self.out.isatty())

    def ended(self, slot: Slot, result: Result, ended: int, going: int, waiting: int) -> None:
        """One line for the run, and on a terminal one that moves for the rest."""
        self.note(f"[{ended}/{self.runs}] {slot[0]} #{slot[1]}: {_said(result)}")
        if self.moving and ended < self.runs:
            print(f"  {going} submitted, {waiting} waiting", end="", file=self.out, flush=True)

    def note(self, text: str) -> None:
        """A line of its own."""
        start = "\r\x1b[2K" if self.moving else ""
        print(f"{start}{text}", file=self.out, flush=True)

    def attend(self, run: Run, rooms: RunContext) -> Result:
        """Follow one run live, as `llmbx run` does."""
        progress = Progress(run.record.spec, self.out)
        progress.note(f"started {run.record.run_id}")
        try:
            return attend(run, rooms, progress)
        finally:
            progress.close()


def _said(result: Result) -> str:
    if result.status != "completed":
        return f"{result.status}: {result.cause}" if result.cause else result.status
    mean = result.step_time_s.mean
    return f"completed, {mean:.4g} s/step" if mean is not None else "completed"
