"""Read NVTX ranges: their totals, and the training steps among them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from llmbx.api import Value

from ..names import DOMAIN
from .database import PROCESS, Database

_TABLE = "NVTX_EVENTS"
_RANGES = "(59, 60)"
"""`eventType` of push/pop ranges and of start/end ranges."""
_DOMAIN_CREATED = 75

_STEP = re.compile(r"(?:train(?:ing)?[ _]?)?(?:step|iteration|iter|profilerstep)[#:=_ ]*(\d+)?", re.IGNORECASE)
"""Names of steps in other programs: step 45, iteration45, ProfilerStep#3, train_step."""

Domain = tuple[int, int | None]
"""A process and its number of a domain."""


class Totals(Value, frozen=True):
    """All ranges with the same text and domain in one profile: number and times in nanoseconds."""

    domain: str | None
    text: str
    calls: int
    total: int
    shortest: int
    longest: int


class StepRange(Value, frozen=True):
    """A training step on the CPU, [start, end) in ns. `number` is its step number, or its index if it has none."""

    process: int
    number: int
    start: int
    end: int


class _Found(Value, frozen=True):
    """A range whose text may be that of a step."""

    process: int
    domain: int | None
    start: int
    end: int
    text: str
    payload: int | None


def totals(database: Database) -> list[Totals]:
    """Return the totals of all ranges that ended inside the capture, by domain and text, longest total first."""
    columns = database.columns(_TABLE)
    if not {"start", "end", "eventType"} <= columns:
        return []
    rows = database.rows(
        f"SELECT {_process(columns)}, {_or_null('domainId', columns)}, {_or_null('text', columns)}, "
        f"{_or_null('textId', columns)}, count(*), sum(end - start), min(end - start), max(end - start) "
        f"FROM {_TABLE} WHERE eventType IN {_RANGES} AND end >= start GROUP BY 1, 2, 3, 4",
        tuple[int, int | None, str | None, int | None, int, int, int, int],
    )
    words = database.strings({row[3] for row in rows if row[2] is None and row[3] is not None})
    names = domains(database)
    merged: dict[tuple[str | None, str], list[tuple[int, int, int, int]]] = {}
    for process, number, text, identifier, *figures in rows:
        calls, total, shortest, longest = figures
        key = (names.get((process, number)), _text(text, identifier, words))
        merged.setdefault(key, []).append((calls, total, shortest, longest))
    return sorted((_sum(*key, parts) for key, parts in merged.items()), key=lambda item: (-item.total, item.text))


def _sum(domain: str | None, text: str, parts: list[tuple[int, int, int, int]]) -> Totals:
    calls, total, shortest, longest = zip(*parts, strict=True)
    return Totals(
        domain=domain, text=text, calls=sum(calls), total=sum(total), shortest=min(shortest), longest=max(longest)
    )


def domains(database: Database) -> dict[Domain, str]:
    """Return the names of the NVTX domains; the default domain has none."""
    columns = database.columns(_TABLE)
    if "domainId" not in columns:
        return {}
    rows = database.rows(
        f"SELECT {_process(columns)}, domainId, {_or_null('text', columns)}, {_or_null('textId', columns)} "
        f"FROM {_TABLE} WHERE eventType = {_DOMAIN_CREATED}",
        tuple[int, int | None, str | None, int | None],
    )
    words = database.strings({row[3] for row in rows if row[2] is None and row[3] is not None})
    return {(process, number): _text(text or None, identifier, words) for process, number, text, identifier in rows}


def steps(database: Database) -> list[StepRange]:
    """Return the training steps of every process, in order: llmbx's own ranges, or else ranges named like a step."""
    columns = database.columns(_TABLE)
    if not {"start", "end", "eventType"} <= columns:
        return []
    names = domains(database)
    candidates = [item for item in _candidates(database, columns) if _STEP.fullmatch(item.text)]
    ours = [
        item for item in candidates if names.get((item.process, item.domain or 0)) == DOMAIN and item.text == "step"
    ]
    # Only llmbx's own payloads are step numbers, and old exports write 0 for ranges without a payload.
    return _numbered(ours or [item.replace(payload=None) for item in candidates])


def _candidates(database: Database, columns: frozenset[str]) -> list[_Found]:
    like = "LIKE '%step%' OR {0} LIKE '%iter%'"
    conditions = [f"text {like.format('text')}"] if "text" in columns else []
    words: dict[int, str] = {}
    if "textId" in columns and "StringIds" in database.tables:
        likely = database.rows(f"SELECT id, value FROM StringIds WHERE value {like.format('value')}", tuple[int, str])
        words = {i: text for i, text in likely if _STEP.fullmatch(text)}
        conditions.append(f"textId IN ({','.join(map(str, words))})")
    if not conditions:
        return []
    rows = database.rows(
        f"SELECT {_process(columns)}, {_or_null('domainId', columns)}, start, end, {_or_null('text', columns)}, "
        f"{_or_null('textId', columns)}, {_or_null('int64Value', columns)} FROM {_TABLE} "
        f"WHERE eventType IN {_RANGES} AND end > start AND ({' OR '.join(conditions)})",
        tuple[int, int | None, int, int, str | None, int | None, int | None],
    )
    return [
        _Found(process=process, domain=domain, start=start, end=end, payload=payload,
               text=_text(text, identifier, words))
        for process, domain, start, end, text, identifier, payload in rows
    ]  # fmt: skip


def _numbered(found: Iterable[_Found]) -> list[StepRange]:
    """Return steps by process and number; of nested ranges with the same number, the outermost."""
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


def _text(text: str | None, identifier: int | None, strings: dict[int, str]) -> str:
    """The text of a range: in its row, or a registered string."""
    return text if text is not None else strings.get(identifier, "") if identifier is not None else ""


def _process(columns: frozenset[str]) -> str:
    return f"ifnull(globalTid, 0) & {PROCESS}" if "globalTid" in columns else "0"


def _or_null(column: str, columns: frozenset[str]) -> str:
    return column if column in columns else "NULL"
