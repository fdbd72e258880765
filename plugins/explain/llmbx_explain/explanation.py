"""The explanation of a failure: the first failure with its place in the log, and what followed it."""

from __future__ import annotations

from typing import Any

from llmbx.api import Failure, Value


class Place(Value, frozen=True):
    """Where a line is: a file and the number of its line, from 1."""

    file: str
    line: int | None = None


class Explanation(Value, frozen=True):
    """What is known about the end of a run. `failure` is None if the log shows none; `note` then says why.

    `last` is the last line of a rank whose failure is known only by its end.
    """

    failure: Failure | None
    place: Place | None = None
    last: str | None = None
    note: str | None = None


def place_of(failure: Failure, path: str, lines: list[str]) -> Place:
    """The first line of the log that has the failure's text, of its rank if several ranks print it."""
    places = [number for number, line in enumerate(lines, 1) if failure.cause[:200] in line]
    own = [number for number in places if failure.rank is not None and f"rank{failure.rank}]" in lines[number - 1]]
    return Place(file=path, line=next(iter((*own, *places)), None))


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The object of `--format json`."""
    failure, place = explanation.failure, explanation.place
    if failure is None:
        return {"failed": None, "followed": [], "unrelated": []}
    failed = {
        "cause": failure.cause,
        "rank": failure.rank,
        "ranks": failure.ranks,
        "node": failure.node,
        "time": failure.time,
        "doubt": failure.doubt,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "infrastructure": failure.infrastructure,
        "last_line": explanation.last,
    }
    return {"failed": failed, "followed": failure.echoes, "unrelated": failure.unrelated}
