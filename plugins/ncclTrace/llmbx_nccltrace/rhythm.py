"""What each training step called, where the steps' lines stand in the same log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from llmbx.logs.lines import LineReader
from llmbx.logs.restarts import RESTARTED
from llmbx.model import Event, Step

from .report import StepCalls
from .tally import Mark, Tally

if TYPE_CHECKING:
    from llmbx.logs.parser import LogFormat, Record


def steps(tally: Tally, formats: Sequence[LogFormat]) -> tuple[StepCalls, ...] | None:
    """The calls between the lines of consecutive steps; None when the log holds no step of a known format.

    The first step's calls are those since the start. Only the last attempt of a restarted run is told.
    """
    format_ = _best(tally.marks, formats)
    if format_ is None:
        return None
    calls, volume = 0, 0
    found: dict[int, StepCalls] = {}
    for mark, record in _records(tally.marks, format_):
        if isinstance(record, Step) and record.number not in found:
            between = mark.calls - calls, mark.volume - volume
            found[record.number] = StepCalls(step=record.number, calls=between[0], message_bytes=between[1])
        elif isinstance(record, Event) and record.kind == RESTARTED:
            found.clear()
        else:
            continue
        calls, volume = mark.calls, mark.volume
    return tuple(found.values()) or None


def _records(marks: Sequence[Mark], format_: LogFormat) -> Iterator[tuple[Mark, Record]]:
    """What the format reads in the lines, each with the line that made it known."""
    parser = format_.parser()
    for mark in marks:
        for line in LineReader().feed(mark.text.encode() + b"\n"):
            for record in parser.feed(line):
                yield mark, record


def _best(marks: list[Mark], formats: Sequence[LogFormat]) -> LogFormat | None:
    text = "\n".join(mark.text for mark in marks)
    scores = [(format_.sniff(text), -place) for place, format_ in enumerate(formats)]
    best = max(scores, default=(0, 0))
    return formats[-best[1]] if best[0] > 0 else None


def usual_calls(found: Sequence[StepCalls]) -> int | None:
    """Calls of the usual step: the median, without the first, which holds the start-up; None below two steps."""
    later = sorted(step.calls for step in found[1:])
    return later[len(later) // 2] if later else None
