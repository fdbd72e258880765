"""Interface of a log parser: it is fed lines and returns steps and events."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..model import Event, Measure, Prints, Source, SourceRecord, Step
from ..run_files import RunFile
from .lines import LineReader

if TYPE_CHECKING:
    from .lines import Line

Record = Step | Event
"""What a parser finds in a log."""


class LogParser(ABC):
    """An incremental parser for one log format. A parser inherits from this class and implements `feed`; everything
    else has a default.
    """

    first_step: int | None = None
    """The number that the framework gives the first step (0 or 1). None: profiled steps are counted from the first step
    in the log.
    """
    prints: Prints | None = None
    """What the format prints. None: a missing loss or last line is not noticed."""
    measures: tuple[Measure, ...] = ()
    """The figures by name that its steps have beside the fields of `Step`."""
    sources: tuple[Source, ...] = ()
    """Other files of the run that it reads."""
    waits: bool = True
    """Whether it must read the next line whatever it says, as a record is not complete. With `signs`, an attribute or a
    property that is true only then.
    """
    signs: tuple[str, ...] | None = None
    """While it does not wait, it gets the lines that have one of these texts or may tell of a failure, each with the
    line before it: long logs are read many times as fast. Others may be among them. None: it gets every line.
    """

    @abstractmethod
    def feed(self, line: Line) -> Iterable[Record]:
        """Return the steps and events completed by one clean line (no line end, no ANSI colors; see
        `llmbx.logs.lines`). A line is a string, and knows when it arrived, from which stream, rank and file.

        A step may be returned again with more fields set: the later record with the same attempt and number completes
        the earlier one. A truncated line ends with `llmbx.logs.lines.CUT`; its last value must not be trusted.
        """

    def feed_record(self, record: SourceRecord) -> Iterable[Record]:
        """Return the steps and events of one record of a source. A parser with sources of records implements this."""
        return ()

    def close(self) -> Iterable[Record]:
        """Return the remaining steps and events at the end of the log."""
        return ()


class LogFormat:
    """A log format: its name, how to recognize it, and its parser.

    `sniff` gets up to the first and the last 256 KiB of a log as text and returns the number of lines that it
    recognizes (0: not this format). `window` returns the default measurement window for an experiment name, in the
    log's own step numbers. `unit` is the unit of time in tables, as users of this format expect it; all other output is
    in seconds.
    """

    __slots__ = ("name", "parser", "sniff", "title", "unit", "window")

    def __init__(
        self,
        name: str,
        title: str,
        sniff: Callable[[str], int],
        parser: Callable[[], LogParser],
        window: Callable[[str], str] = lambda experiment: "auto",
        unit: Literal["s", "ms"] = "s",
    ) -> None:
        self.name = name
        self.title = title
        self.sniff = sniff
        self.parser = parser
        self.window = window
        self.unit = unit

    @staticmethod
    def recognize(path: Path | RunFile, formats: Sequence[LogFormat]) -> LogFormat | None:
        """Return the format that recognizes the most lines of a log; None if none does. Raises `OSError`."""
        text = ends(path)
        scores = [(format_.sniff(text), -place) for place, format_ in enumerate(formats)]
        best = max(scores, default=(0, 0))
        return formats[-best[1]] if best[0] > 0 else None


SNIFF = 256 * 1024
"""Bytes from the start and the end of a log that are passed to `LogFormat.sniff`."""


def ends(path: Path | RunFile) -> str:
    """The first and the last 256 KiB of a file as clean text. Raises `OSError`."""
    with path.open("rb") as file:
        head = file.read(SNIFF)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(SNIFF, size - SNIFF))
        tail = file.read()
    reader, gap = LineReader(), b"\n" if size > 2 * SNIFF else b""
    return "\n".join([*reader.feed(head + gap + tail), *reader.close()])
