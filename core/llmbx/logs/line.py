"""A line of a log, which knows where it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, Self

from .lines import LineReader, split_label

_RANK = re.compile(r"rank[-_.]?(\d{1,7})(?!\d)", re.IGNORECASE)


class Line(str):
    """A clean line of a log: a string that knows where it comes from. What is not known is None."""

    __slots__ = ("arrived", "source")

    arrived: float | None
    """When it was read from the growing file, in epoch seconds of a clock that is not set while the run is followed;
    it was written earlier. None if the run was not followed.
    """
    source: str | None
    """Its file, relative to the run's folder."""

    def __new__(cls, text: str, arrived: float | None = None, source: str | None = None) -> Self:
        line = super().__new__(cls, text)
        line.arrived, line.source = arrived, source
        return line

    @classmethod
    def of(cls, text: str) -> list[Self]:
        """The clean lines of a log's text, as a parser gets them; an unfinished last line is cut."""
        reader = LineReader()
        return [cls(line) for line in (*reader.feed(text.encode()), *reader.close())]

    @property
    def rank(self) -> int | None:
        """The rank that printed it, if its label or else the name of its file says so."""
        rank = split_label(self)[1]
        return rank_in(self.source or "") if rank is None else rank

    @property
    def stream(self) -> Literal["stdout", "stderr"] | None:
        """The stream that it was printed on, if its label or else the name of its file says so."""
        label = split_label(self)[0]
        if "<stdout>" in label:
            return "stdout"
        return "stderr" if "<stderr>" in label else stream_in(self.source or "")


def as_lines(texts: Iterable[str], arrived: float | None, source: str) -> Iterator[Line]:
    """Lines of a file with what is known about them. The loop is written for logs of millions of lines."""
    new = str.__new__
    for text in texts:
        line = new(Line, text)
        line.arrived = arrived
        line.source = source
        yield line


def rank_in(name: str) -> int | None:
    """The rank that the path of a file names last: `rank-3`, `rank_3`, `rank3`; None if it names none."""
    found = _RANK.findall(name)
    return int(found[-1]) if found else None


def stream_in(name: str) -> Literal["stdout", "stderr"] | None:
    """The stream that the name of a file states; None if it states none."""
    lower = name.lower()
    if lower.endswith(".err") or "stderr" in lower:
        return "stderr"
    return "stdout" if "stdout" in lower else None
