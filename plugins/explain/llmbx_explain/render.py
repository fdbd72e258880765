"""The explanation as text. Pure."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from llmbx.api import Failure

from .advice import NOT_STARTED, advice
from .explanation import Explanation

WIDTH = 80
"""Columns of a note."""

MOST_TEXT = 300
"""Maximum length of the cause."""

MOST_ECHO = 52
"""Maximum length of a line that followed, so that it fits into 80 columns with its ranks."""

NAMED = 4
"""Maximum number of ranks before such a line."""

SHOWN = 12
"""Maximum number of lines about what followed."""

_STAMP = re.compile(r"^\[[EWIF]\d{3,8} [^\]]{0,120}\]\s*")
"""What glog prints before a message: severity, time and place in the source."""

ELSEWHERE = {
    True: "on other nodes it may succeed",
    False: "other nodes do not help",
    None: "whether other nodes help is unknown",
}


def text(explanation: Explanation) -> str:
    """The first failure, what followed on whom, what to look at next, and what to do."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(explanation: Explanation) -> Iterator[str]:
    failure, place = explanation.failure, explanation.place
    if failure is None:
        note = explanation.note or "no failure found"
        yield from textwrap.wrap(note, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        return
    if failure.kind == NOT_STARTED:
        yield "failed before a rank was started:"
        yield f"  {failure.cause}"
        yield f"do: {advice(failure.kind).do}"
        return
    yield f"failed first: {_who(failure)}"
    yield f"  {failure.cause[:MOST_TEXT]}"
    if place is not None and place.line is not None:
        yield f"  {place.file}:{place.line}"
    if explanation.last:
        yield f"its last line: {explanation.last[:MOST_TEXT]}"
    if failure.doubt:
        yield f"in doubt: {failure.doubt}"
    for title, echoes in (("followed", failure.echoes), ("unrelated, as the training continued", failure.unrelated)):
        if echoes:
            yield f"{title}:"
            yield from _echoes([(echo.rank, echo.text) for echo in echoes])
    hint = advice(failure.kind)
    yield f"look at: {hint.look}"
    yield f"do: {hint.do}"
    yield f"retry: {ELSEWHERE[failure.infrastructure]}"


def _who(failure: Failure) -> str:
    who = failure.who or "an unknown rank"
    parts = [who, f"on {failure.node}" if failure.node else "", f"at {failure.time}" if failure.time else ""]
    return " ".join(part for part in parts if part)


def _echoes(echoes: Sequence[tuple[int | None, str]]) -> Iterator[str]:
    """One line for each text without its numbers, with the ranks that print it."""
    ranks: dict[str, set[int | None]] = {}
    for rank, text in echoes:
        ranks.setdefault(_shape(text), set()).add(rank)
    counted = Counter(_shape(text) for _, text in echoes)
    texts = {_shape(text): _STAMP.sub("", text) for _, text in reversed(echoes)}
    for shape in [*ranks][:SHOWN]:
        printed_by = sorted(rank for rank in ranks[shape] if rank is not None)
        yield f"  {counted[shape]} x {_ranks(printed_by)}{texts[shape][:MOST_ECHO]}"
    if len(counted) > SHOWN:
        yield f"  and {len(counted) - SHOWN} more"


def _ranks(ranks: Sequence[int]) -> str:
    """The ranks that print a line, before it; empty if none is known."""
    if not ranks:
        return ""
    shown = ", ".join(map(str, ranks[:NAMED])) + (", …" if len(ranks) > NAMED else "")
    return f"rank{'s' * (len(ranks) > 1)} {shown}: "


def _shape(text: str) -> str:
    return "".join(c for c in text[:60] if not c.isdigit())
