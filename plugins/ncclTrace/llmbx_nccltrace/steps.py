"""Assign NCCL calls to training steps, using the framework's step lines in the same log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from llmbx.api import Event, Line, Step

from .counts import FrameworkLine, LogCounts
from .report import StepCalls

if TYPE_CHECKING:
    from llmbx.api import LogFormat


def calls_by_step(counts: LogCounts, formats: Sequence[LogFormat]) -> tuple[StepCalls, ...] | None:
    """Return the calls between the lines of consecutive steps; None if the log has no step line in a known format.

    The first step includes all calls since the start. Of a restarted run, only the last attempt is returned.
    """
    format_ = _best_format(counts.framework_lines, formats)
    if format_ is None:
        return None
    calls, volume = 0, 0
    by_step: dict[int, StepCalls] = {}
    for line, record in _records(counts.framework_lines, format_):
        if isinstance(record, Step) and record.number not in by_step:
            between = line.calls - calls, line.volume - volume
            by_step[record.number] = StepCalls(step=record.number, calls=between[0], message_bytes=between[1])
        elif isinstance(record, Event) and record.kind == "restarted":
            by_step.clear()
        else:
            continue
        calls, volume = line.calls, line.volume
    return tuple(by_step.values()) or None


def _records(
    framework_lines: Sequence[FrameworkLine], format_: LogFormat
) -> Iterator[tuple[FrameworkLine, Step | Event]]:
    """Yield the records that the format's parser reads, each with the line that completed it."""
    parser = format_.parser()
    for line in framework_lines:
        for text in Line.of(f"{line.text}\n"):
            for record in parser.feed(text):
                yield line, record


def _best_format(framework_lines: list[FrameworkLine], formats: Sequence[LogFormat]) -> LogFormat | None:
    text = "\n".join(line.text for line in framework_lines)
    scores = [(format_.sniff(text), -index) for index, format_ in enumerate(formats)]
    best = max(scores, default=(0, 0))
    return formats[-best[1]] if best[0] > 0 else None


def usual_calls(steps: Sequence[StepCalls]) -> int | None:
    """Return the median calls per step, excluding the first, which includes start-up; None for fewer than two steps."""
    from statistics import median_high

    later = [step.calls for step in steps[1:]]
    return median_high(later) if later else None
