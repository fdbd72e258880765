"""The failures that look alike in all frameworks, and what a log says about how a training ran: `data/failures.toml`.

The notices, which are no failures, are a part of docs/checks.md, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from ..model.base import Value
from ..model.finding import Effect
from ..toml_file import read_toml
from .literals import Filter, skeleton_of

FILE = Path(__file__).parents[1] / "data" / "failures.toml"

Role = Literal["cause", "precursor", "contact", "watchdog", "end", "scheduler", "stopped", "detail", "notice"]
"""The role of a line in a failure.

- `cause`: a failure with a reason of its own.
- `precursor`: a fault of the hardware that the run may survive; if the run then fails without a cause, it is the cause.
- `contact`: a rank lost another one. It is an echo of the other's failure; without one, the network is the cause.
- `watchdog`: a rank waited too long for others, or was aborted because of it. Never the cause if there is another.
- `end`: a rank ended, by an exit code or a signal. It is the cause if nothing else of this rank comes before.
- `scheduler`: the scheduler ended the job, and says why.
- `stopped`: the launcher or the scheduler stops the other ranks. Always an echo.
- `detail`: belongs to another line, and says more than that.
- `notice`: says how the training ran (`notices`). Never a failure.
"""


BY = "by"
"""Fact of an event about other ranks: the rank that printed it."""


class Notice(Value, frozen=True):
    """A kind of event that is no failure by itself: the check that finds it, its effect on the run, what it means and
    what to do, and the patterns of its lines.

    `usual_on_cpu`: a CPU has no other way. A run that fails after a `precursor` may have failed by it; `elsewhere` is
    whether a retry on other nodes makes sense then.
    """

    check: str
    effect: Effect
    means: str
    do: str
    patterns: tuple[str, ...]
    usual_on_cpu: bool = False
    role: Literal["notice", "precursor"] = "notice"
    elsewhere: bool = False

    @property
    def event(self) -> str:
        """The kind of its events."""
        return self.check.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Signature:
    """A kind of event, and the pattern of its lines, which is compiled when it is first needed: few ever are.

    `elsewhere` is whether a retry on other nodes makes sense: None if that depends on when it happens.
    """

    kind: str
    role: Role
    pattern: str
    elsewhere: bool | None = False


NOTICES = "the notices"
"""Stands for the notices with a role among the signatures."""

ELSEWHERE: dict[str, bool | None] = {"": False, "elsewhere": True, "elsewhere until the first step": None}


class _Row(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    kind: str
    role: Role
    pattern: str
    retry: Literal["", "elsewhere", "elsewhere until the first step"] = ""


class _Failures(Value, frozen=True):
    signatures: tuple[_Row, ...]
    explained: tuple[tuple[str, str], ...]
    notices: tuple[Notice, ...]


@cache
def _read() -> _Failures:
    return read_toml(FILE, _Failures)


def notices() -> tuple[Notice, ...]:
    """All notices, in the order in which their patterns are tried."""
    return _read().notices


@cache
def signatures() -> tuple[Signature, ...]:
    """All signatures, in the order in which they are tried."""
    return tuple(signature for row in _read().signatures for signature in _signatures(row))


def _signatures(row: _Row) -> Iterator[Signature]:
    if row.kind != NOTICES:
        yield Signature(row.kind, row.role, row.pattern, ELSEWHERE[row.retry])
        return
    for notice in notices():
        if notice.role == row.role:
            for pattern in notice.patterns:
                yield Signature(notice.event, notice.role, pattern, notice.elsewhere)


@cache
def explained() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Lines (first) that are the echo of a line that states the reason (second), even if they come before it."""
    return tuple((re.compile(line), re.compile(reason)) for line, reason in _read().explained)


@cache
def table_filter() -> Filter:
    """The filter of the signatures, which takes some milliseconds to make."""
    return Filter(signature.pattern for signature in signatures())


def match(text: str) -> Signature | None:
    """The signature of a line's text; None if no signature matches."""
    table = signatures()
    candidates = (table[place] for place in table_filter().places(skeleton_of(text)))
    return next((signature for signature in candidates if _compiled(signature.pattern).search(text)), None)


_compiled = cache(re.compile)
