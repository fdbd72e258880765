"""Live progress of a run on stderr: one line that is updated on a terminal, a line every 10 s through a pipe."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import deque
from typing import Any

from ..model import Event, JobStatus, RunSpec, Step
from ..secrets import scrub
from .streams import control, visible

ROLLING = 10
PLAIN_EVERY_S = 10.0


class Progress:
    """Counts steps and prints progress: step k/N, rolling mean of seconds per step, loss, remaining time."""

    def __init__(self, spec: RunSpec, out: Any = None) -> None:
        self.spec = spec
        self.out = out or sys.stderr
        self.moving = bool(self.out.isatty())
        self.times: deque[float] = deque(maxlen=ROLLING)
        self.last: Step | None = None
        self.seen: set[tuple[int, int]] = set()
        self.printed = 0.0
        self.state = ""

    def step(self, step: Step) -> None:
        """Count a step and print progress. A step may be reported again with more values."""
        key = (step.attempt, step.number)
        if key not in self.seen and step.time_s is not None:
            self.seen.add(key)
            self.times.append(step.time_s)
        self.last = step
        self._print(self.line(), final=len(self.seen) >= self.spec.steps)

    def event(self, event: Event) -> None:
        """Print fatal events, notes and restarts immediately."""
        if event.kind == "restarted":
            self.seen.clear()
            self.times.clear()
        if event.fatal or event.kind in ("note", "restarted"):
            self._clear()
            print(f"  {visible(scrub(event.text[:500], os.environ))[:200]}", file=self.out, flush=True)

    def status(self, status: JobStatus) -> None:
        """Print the state of a pending job, with its reason, when it changes."""
        named = not status.reason or status.reason.startswith(status.state)
        text = (status.reason or status.state) if named else f"{status.state}: {status.reason}"
        if text != self.state and status.state == "pending":
            self._print(f"waiting for the job: {text}")
        self.state = text

    def note(self, text: str) -> None:
        """Print one line."""
        self._clear()
        print(text, file=self.out, flush=True)

    def close(self) -> None:
        """End the line that is being updated."""
        if self.moving and self.last is not None:
            print(file=self.out, flush=True)

    def line(self) -> str:
        """`step 23/50  0.352 s/step  loss 2.931  0:09 to go`; unknown parts are omitted."""
        assert self.last is not None
        parts = [f"step {len(self.seen)}/{self.spec.steps}"]
        if self.times:
            pace = statistics.fmean(self.times)
            parts.append(f"{pace:.3f} s/step")
        if self.last.loss is not None:
            parts.append(f"loss {self.last.loss:.3f}")
        if self.times:
            parts.append(f"{clock(pace * max(0, self.spec.steps - len(self.seen)))} to go")
        return "  ".join(parts)

    def _print(self, text: str, final: bool = False) -> None:
        now = time.monotonic()
        if self.moving:
            self._clear()
            print(f"  {text}", end="", file=self.out, flush=True)
        elif final or now - self.printed >= PLAIN_EVERY_S:
            print(f"  {text}", file=self.out, flush=True)
            self.printed = now

    def _clear(self) -> None:
        if self.moving:
            control(self.out, "\r\x1b[2K")


def clock(seconds: float) -> str:
    """Format seconds as `m:ss` or `h:mm:ss`."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{second:02d}" if hours else f"{minutes}:{second:02d}"
