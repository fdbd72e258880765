"""The interface of a log grammar: feed it lines, get steps and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from ..model import Event, Step

Record = Step | Event


class LogParser(Protocol):
    """An incremental grammar for one format.

    It should also have `first_step`, the number that the framework gives the first step (0 or 1): without it, profiled
    steps are counted from the first one that was seen.
    """

    def feed(self, line: str) -> Iterable[Record]:
        """What one clean line makes known (no line end, no ANSI colours; see `llmbx.logs.lines`).

        A step may be yielded again with more members set: the later record of the same attempt and number completes
        the earlier one. A line that was cut ends with `llmbx.logs.lines.CUT`; its last value cannot be trusted.
        """

    def close(self) -> Iterable[Record]:
        """What is left when the log ends."""


class LogFormat:
    """One format: its name, how to recognise it, and its grammar.

    `sniff` gets up to the first and the last 256 KiB of a log as text and says how many of its own lines it sees
    (0: not this format). `window` is the usual measuring window for an experiment of that name, in the log's own step
    numbers.
    `unit` is the unit of time that users of this format are used to read: tables show it, everything else is seconds.
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
