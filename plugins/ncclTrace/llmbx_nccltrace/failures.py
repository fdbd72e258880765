"""Who failed first, by the lines at the ends of the logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import Event, Failure, Line, LogFormat, LogParser, RunFile, Signatures, Step

from .tail import ends

SIZE = 16 << 20
"""Bytes of all logs that are read for it, an equal part of each."""


def failure(logs: Sequence[Path | RunFile], formats: Sequence[LogFormat] = ()) -> Failure | None:
    """The first failure in the logs that no training step follows; None if there is none.

    `formats` find the steps. A rank that no line states is that in the name of the file.
    """
    events: list[Event] = []
    later: list[int] = []
    for log, data in ends(logs, SIZE):
        read_events, after = _read(data, formats, log.name if len(logs) > 1 else "")
        events += read_events
        later += after
    return Signatures.first_failure(events, later, stepped=True)


def _read(data: bytes, formats: Sequence[LogFormat], name: str) -> tuple[list[Event], list[int]]:
    """The events of one log, and the number of steps after each."""
    lines = Line.of(data.decode("utf-8", "replace"))
    events: list[Event] = []
    before: list[int] = []
    steps = 0
    parser = _parser("\n".join(lines), formats)
    for text in lines:
        line = Line(text, source=name)
        for record in parser.feed(line):
            if isinstance(record, Step):
                steps += 1
            else:
                events.append(record.replace(rank=line.rank) if record.rank is None else record)
                before.append(steps)
    return events, [steps - count for count in before]


def _parser(text: str, formats: Sequence[LogFormat]) -> LogParser | Signatures:
    """The parser of the format that recognizes the most lines; without one, only failures are found."""
    best = max(formats, key=lambda each: each.sniff(text), default=None)
    return best.parser() if best is not None and best.sniff(text) else Signatures()
