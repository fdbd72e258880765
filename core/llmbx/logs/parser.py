"""The interface of a log grammar: feed it lines, get steps and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from ..model import Event, Step

Record = Step | Event


class LogParser(Protocol):
    """An incremental grammar for one format.

    `feed` takes one clean line (no line end, no ANSI colours; see `llmbx.logs.lines`) and yields what it makes known.
    A step may be yielded again with more members set: the later record of the same attempt and number completes the
    earlier one. `close` yields what is left when the log ends.
    """

    def feed(self, line: str) -> Iterable[Record]: ...

    def close(self) -> Iterable[Record]: ...


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
