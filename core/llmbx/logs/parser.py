"""Interface of a log parser: it is fed lines and returns steps and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from ..model import Event, Step

Record = Step | Event
"""What a parser finds in a log."""


class LogParser(Protocol):
    """An incremental parser for one log format.

    It should also have the attribute `first_step`, the number that the framework gives the first step (0 or 1): without
    it, profiled steps are counted from the first step in the log. With the attribute `prints`, a `Prints`, it states
    what the format prints: without it, a missing loss or last line is not noticed.

    More that a parser may have:

    - the attribute `measures`, a tuple of `Measure`: the figures by name that its steps have beside the fields of
      `Step`;
    - the method `feed_line(line: Line)`, which is called in place of `feed` and knows when the line arrived, from which
      stream, rank and file (`feed` remains for lines of which only the text is known);
    - the attribute `sources`, a tuple of `Source`: other files of the run, and the method
      `feed_record(record: SourceRecord)` for their records. Both methods return what `feed` returns.
    """

    def feed(self, line: str) -> Iterable[Record]:
        """Return the steps and events completed by one clean line (no line end, no ANSI colors; see
        `llmbx.logs.lines`).

        A step may be returned again with more fields set: the later record with the same attempt and number completes
        the earlier one. A truncated line ends with `llmbx.logs.lines.CUT`; its last value must not be trusted.
        """

    def close(self) -> Iterable[Record]:
        """Return the remaining steps and events at the end of the log."""


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
