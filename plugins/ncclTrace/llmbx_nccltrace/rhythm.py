"""What each training step called, where the steps' lines stand in the same log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmbx.logs.collect import RESTARTED
from llmbx.logs.lines import LineReader

from .report import StepCalls
from .tally import Mark, Tally

if TYPE_CHECKING:
    from llmbx.logs.parser import LogFormat


def steps(tally: Tally, formats: Sequence[LogFormat]) -> tuple[StepCalls, ...] | None:
    """The calls between the lines of consecutive steps; None when the log holds no step of a known format.

    The first step's calls are those since the start of the log. Only the last attempt of a restarted run is told.
    """
    format_ = _best(tally.marks, formats)
    if format_ is None:
        return None
    parser, calls, volume = format_.parser(), 0, 0
    found: dict[int, StepCalls] = {}
    seen = set[int]()
    for mark in tally.marks:
        for line in LineReader().feed(mark.text.encode() + b"\n"):
            for record in parser.feed(line):
                if getattr(record, "kind", None) == RESTARTED:
                    found.clear()
                    seen.clear()
                number = getattr(record, "number", None)
                if number is None or number in seen:
                    continue
                seen.add(number)
                found[number] = StepCalls(step=number, calls=mark.calls - calls, message_bytes=mark.volume - volume)
                calls, volume = mark.calls, mark.volume
    return tuple(found.values()) or None


def _best(marks: list[Mark], formats: Sequence[LogFormat]) -> LogFormat | None:
    text = "\n".join(mark.text for mark in marks)
    scores = [(format_.sniff(text), -place) for place, format_ in enumerate(formats)]
    best = max(scores, default=(0, 0))
    return formats[-best[1]] if best[0] > 0 else None


def usual_calls(found: Sequence[StepCalls]) -> int | None:
    """Calls of the usual step: the median, without the first, which holds the start-up; None below two steps."""
    later = sorted(step.calls for step in found[1:])
    return later[len(later) // 2] if later else None
