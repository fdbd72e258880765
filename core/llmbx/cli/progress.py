"""Live progress of a run on stderr: one line that moves on a terminal, few lines through a pipe, never long silence."""

from __future__ import annotations

import os
import re
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ..model import Event, JobStatus, RunSpec, Step
from ..secrets import scrub
from .streams import control, visible

ROLLING = 10
"""Number of steps that the pace is the mean of, and that are drawn."""

PLAIN_EVERY_S = 10.0
"""Shortest time between two lines of steps through a pipe."""

QUIET_S = 13.0
"""Longest time without a line through a pipe."""

WIDTH = 80

BAR = 12
"""Width of the bar, in characters."""

BLOCKS = "▁▂▃▄▅▆▇█"

SAME = 0.02
"""A spread of the step times below this fraction is drawn as a flat line: the drawing shows changes, not noise."""


class Progress:
    """Counts steps and prints progress: step k/N, pace with a drawing, loss, memory, remaining time.

    Before the first step it shows what is being waited for. `out` is a text stream (default: stderr), `now` a clock in
    seconds, `epoch` the time in epoch seconds. Drawings are for terminals that show UTF-8.
    """

    def __init__(
        self, spec: RunSpec, out: Any = None, now: Callable[[], float] = time.monotonic,
        epoch: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.out = out or sys.stderr
        self.moving = bool(self.out.isatty())
        self.plain = not str(getattr(self.out, "encoding", None) or "utf-8").lower().startswith("utf")
        self._now, self._epoch = now, epoch
        self.times: deque[float] = deque(maxlen=ROLLING)
        self.last: Step | None = None
        self.memory_bytes: int | None = None
        self.seen: set[tuple[int, int]] = set()
        self._printed = self._began = self._changed = now()
        self._state = self._shown = ""
        self._note: str | None = None
        self._held = self._ended = False

    def step(self, step: Step) -> None:
        """Count a step and print progress. A step may be reported again with more values."""
        key = (step.attempt, step.number)
        if key not in self.seen and step.time_s is not None:
            self.seen.add(key)
            self.times.append(step.time_s)
        self.last = step
        self.memory_bytes = step.peak_memory_bytes or self.memory_bytes
        self._changed = self._now()
        ended = len(self.seen) >= self.spec.steps
        self._show(self.line(), PLAIN_EVERY_S, final=ended and not self._ended)
        self._ended = ended

    def event(self, event: Event) -> None:
        """Print fatal events, notes and restarts immediately."""
        if event.kind == "restarted":
            self.seen.clear()
            self.times.clear()
            self.last = None
        if event.fatal or event.kind in ("note", "restarted"):
            self._line(f"  {visible(scrub(event.text[:500], os.environ))[:200]}")

    def status(self, status: JobStatus) -> None:
        """Show what is waited for: a new state at once, the same one from time to time."""
        state = f"{status.state}: {status.reason}" if status.state == "pending" else status.state
        changed = state != self._state
        if status.state != self._state.partition(":")[0]:
            self._began = self._now()
        self._state = state
        if self.last is not None and self._now() - self._changed < QUIET_S:
            return  # its line is there
        self._show(self._waiting(status), 0.0 if changed and status.state == "pending" else QUIET_S)

    def note(self, text: str) -> None:
        """Print one line. Of lines with figures of the same thing, a terminal shows the last, and a pipe few."""
        same = self._note is not None and _same_thing(self._note, text)
        if not same:
            self._settle()
        if self.moving:
            self._move(text)
        elif same and self._now() - self._printed < PLAIN_EVERY_S:
            self._held = True
        else:
            self._put(text)
        self._note = text

    def close(self) -> None:
        """End the line that is being updated."""
        self._settle()
        if self._shown:
            print(file=self.out, flush=True)
        self._shown = ""

    def line(self) -> str:
        """`23/50 ━━━━━─────── 0.352 s/step ▂▂▃▂▂  loss 2.931  41.2 GB  0:09 to go`; unknown parts are omitted."""
        assert self.last is not None
        done, steps = len(self.seen), self.spec.steps
        drawn = self.moving and not self.plain
        parts = [f"step {done}/{steps} {_bar(done / steps)}" if drawn else f"step {done}/{steps}"]
        if self.times:
            pace = statistics.fmean(self.times)
            drawing = f" {sparkline(self.times)}" if drawn and len(self.times) > 1 else ""
            parts.append(f"{_seconds(pace)} s/step{drawing}")
        if self.last.loss is not None:
            parts.append(f"loss {self.last.loss:.3f}")
        if self.memory_bytes is not None:
            parts.append(f"{self.memory_bytes / 1e9:.1f} GB")
        if self.times:
            parts.append(f"{clock(pace * max(0, steps - done))} to go")
        return "  ".join(parts)

    def _waiting(self, status: JobStatus) -> str:
        """The line while nothing new has been measured."""
        since = clock(self._now() - self._began)
        if status.state == "pending":
            named = not status.reason or status.reason.startswith(status.state)
            text = (status.reason or status.state) if named else f"{status.state}: {status.reason}"
            return f"waiting for the job, {since}: {text}{self._expected(status)}"
        if self.last is None:
            return f"started, {since}: waiting for the first step"
        return f"{self.line()}  (last step {clock(self._now() - self._changed)} ago)"

    def _expected(self, status: JobStatus) -> str:
        if status.expected_start is None or status.expected_start <= self._epoch():
            return ""
        form = "%H:%M" if status.expected_start - self._epoch() < 12 * 3600 else "%Y-%m-%d %H:%M"
        return f"; expected start {time.strftime(form, time.localtime(status.expected_start))}"

    def _show(self, text: str, every_s: float, final: bool = False) -> None:
        """Show a line that the next one replaces; through a pipe it is printed once in `every_s` seconds."""
        if self.moving:
            self._settle()
            self._move(f"  {text}")
        elif final or self._now() - self._printed >= every_s:
            self._line(f"  {text}")

    def _line(self, text: str) -> None:
        """Print a line that stays."""
        self._settle()
        self._clear()
        self._put(text)

    def _put(self, text: str) -> None:
        print(text, file=self.out, flush=True)
        self._printed, self._shown, self._held = self._now(), "", False

    def _settle(self) -> None:
        """Let the note that is shown, or was held back, stay in its full length."""
        if self._note is not None and (self.moving or self._held):
            self._clear()
            self._put(self._note)
        self._note = None

    def _move(self, text: str) -> None:
        """Show `text` in place of the line that was shown last; a terminal would wrap a longer one."""
        self._clear()
        print(text[: WIDTH - 1], end="", file=self.out, flush=True)
        self._shown = text

    def _clear(self) -> None:
        if self.moving:
            control(self.out, "\r\x1b[2K")


def _same_thing(before: str, text: str) -> bool:
    """Whether both lines have the same words before a colon, and figures after it."""
    parts = [line.partition(": ") for line in (before, text)]
    return parts[0][0] == parts[1][0] and all(re.search(r"\d", rest) for _, _, rest in parts)


def _bar(share: float) -> str:
    done = int(BAR * min(1.0, share))
    return "━" * done + "─" * (BAR - done)


def sparkline(values: Sequence[float]) -> str:
    """The values as blocks of different heights: from the least to the largest, or flat if they hardly differ."""
    low, high = min(values), max(values)
    if high - low <= SAME * high:
        return BLOCKS[0] * len(values)
    return "".join(BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))] for value in values)


def _seconds(pace: float) -> str:
    return f"{pace:.3f}" if pace < 100 else f"{pace:.1f}"


def clock(seconds: float) -> str:
    """Format seconds as `m:ss` or `h:mm:ss`."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, second = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{second:02d}" if hours else f"{minutes}:{second:02d}"
