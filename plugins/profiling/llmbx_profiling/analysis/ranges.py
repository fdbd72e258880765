"""NVTX ranges: what they add up to, and which of them are the training steps."""

from __future__ import annotations

import re
from collections.abc import Iterable

from llmbx.model import Value

from ..names import DOMAIN
from .database import PROCESS, Database

_TABLE = "NVTX_EVENTS"
_RANGES = "(59, 60)"
"""`eventType` of a pushed and popped range, and of a started and ended one."""
_DOMAIN_CREATED = 75

_STEP = re.compile(r"(?:train(?:ing)?[ _]?)?(?:step|iteration|iter|profilerstep)[#:=_ ]*(\d+)?", re.IGNORECASE)
"""How other programs name their steps: step 45, iteration45, ProfilerStep#3, train_step."""

Domain = tuple[int, int]
"""A process and the number it gives a domain."""


class Totals(Value, frozen=True):
    """All ranges of one text and domain in one profile: how many, and their lengths in nanoseconds."""

    domain: str | None
    text: str
    calls: int
    total: int
    shortest: int
    longest: int


class StepRange(Value, frozen=True):
    """A training step as its process saw it on the CPU: the number it carries (else its place), [start, end) in ns."""

    process: int
    number: int
    start: int
    end: int


class _Found(Value, frozen=True):
    """A range whose text could be a step's."""

    process: int
    domain: int | None
    start: int
    end: int
    text: str
    payload: int | None


def totals(database: Database) -> list[Totals]:
    """Every range that ended inside the capture, by domain and text, longest sum first."""
    columns = database.columns(_TABLE)
    if not {"start", "end", "eventType"} <= columns:
        return []
    rows = list(
        database.rows(
            f"SELECT {_process(columns)}, {_or_null('domainId', columns)}, {_or_null('text', columns)}, "
            f"{_or_null('textId', columns)}, count(*), sum(end - start), min(end - start), max(end - start) "
            f"FROM {_TABLE} WHERE eventType IN {_RANGES} AND end >= start GROUP BY 1, 2, 3, 4"
        )
    )
    words = database.strings({row[3] for row in rows if row[2] is None and row[3] is not None})
    known = domains(database)
    merged: dict[tuple[str | None, str], list[tuple[int, int, int, int]]] = {}
    for process, number, text, identifier, *figures in rows:
        name = text if text is not None else words.get(identifier, "")
        merged.setdefault((known.get((process, number)), name), []).append(tuple(figures))
    return sorted((_sum(*key, parts) for key, parts in merged.items()), key=lambda item: (-item.total, item.text))


def _sum(domain: str | None, text: str, parts: list[tuple[int, int, int, int]]) -> Totals:
    calls, total, shortest, longest = zip(*parts, strict=True)
    return Totals(
        domain=domain, text=text, calls=sum(calls), total=sum(total), shortest=min(shortest), longest=max(longest)
    )


def domains(database: Database) -> dict[Domain, str]:
    """Names of the NVTX domains; the default domain has none."""
    columns = database.columns(_TABLE)
    if "domainId" not in columns:
        return {}
    rows = list(
        database.rows(
            f"SELECT {_process(columns)}, domainId, {_or_null('text', columns)}, {_or_null('textId', columns)} "
            f"FROM {_TABLE} WHERE eventType = {_DOMAIN_CREATED}"
        )
    )
    words = database.strings({row[3] for row in rows if row[2] is None and row[3] is not None})
    return {(process, number): text or words.get(identifier, "") for process, number, text, identifier in rows}


def steps(database: Database) -> list[StepRange]:
    """The training steps of every process, in order: llmbx's own ranges, or else whatever looks like a step."""
    columns = database.columns(_TABLE)
    if not {"start", "end", "eventType"} <= columns:
        return []
    known = domains(database)
    found = [item for item in _candidates(database, columns) if _STEP.fullmatch(item.text)]
    ours = [item for item in found if known.get((item.process, item.domain or 0)) == DOMAIN and item.text == "step"]
    # A payload is a number only where its meaning is agreed: old exports write 0 where there is none.
    return _numbered(ours or [item.replace(payload=None) for item in found])


def _candidates(database: Database, columns: frozenset[str]) -> list[_Found]:
    like = "LIKE '%step%' OR {0} LIKE '%iter%'"
    conditions = [f"text {like.format('text')}"] if "text" in columns else []
    words: dict[int, str] = {}
    if "textId" in columns and "StringIds" in database.tables:
        likely = database.rows(f"SELECT id, value FROM StringIds WHERE value {like.format('value')}")
        words = {i: text for i, text in likely if _STEP.fullmatch(text)}
        conditions.append(f"textId IN ({','.join(map(str, words))})")
    if not conditions:
        return []
    rows = database.rows(
        f"SELECT {_process(columns)}, {_or_null('domainId', columns)}, start, end, {_or_null('text', columns)}, "
        f"{_or_null('textId', columns)}, {_or_null('int64Value', columns)} FROM {_TABLE} "
        f"WHERE eventType IN {_RANGES} AND end > start AND ({' OR '.join(conditions)})"
    )
    return [
        _Found(process=process, domain=domain, start=start, end=end, payload=payload,
               text=text if text is not None else words.get(identifier, ""))
        for process, domain, start, end, text, identifier, payload in rows
    ]  # fmt: skip


def _numbered(found: Iterable[_Found]) -> list[StepRange]:
    """Steps by process and number; of nested ranges with one number (a framework's beside another's) the outermost."""
    steps: dict[tuple[int, int], StepRange] = {}
    following: dict[int, int] = {}
    for item in sorted(found, key=lambda f: (f.process, f.start, -f.end)):
        digits = _STEP.fullmatch(item.text)
        number = item.payload
        if number is None:
            number = int(digits[1]) if digits and digits[1] else following.get(item.process, 0)
        following[item.process] = number + 1
        step = StepRange(process=item.process, number=number, start=item.start, end=item.end)
        steps.setdefault((item.process, number), step)
    return list(steps.values())


def _process(columns: frozenset[str]) -> str:
    return f"ifnull(globalTid, 0) & {PROCESS}" if "globalTid" in columns else "0"


def _or_null(column: str, columns: frozenset[str]) -> str:
    return column if column in columns else "NULL"
