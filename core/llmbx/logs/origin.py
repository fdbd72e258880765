"""Where a line of a log comes from: the label before its text, and the rank, node and time that it states."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .lines import split_label
from .printed import whole

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# Of a host only the first part of its name is kept, so that `n2` and `n2.cluster` are one node; an address stays whole.
_HOST = r"[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,62}){0,6}"

_PIECE = re.compile(
    rf"""\s*(?:
      \[?(?P<date>\d{{4}}-\d\d-\d\d)[T_ ](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?)(?P<zone>Z|[+-]\d\d:?\d\d)?
        [\]:]?(?:\s|$)
    | (?P<us>(?:0\d|1[0-2])/[0-3]\d)/(?P<year>\d{{4}})\ (?P<us_clock>\d\d:\d\d:\d\d)\s
    | (?P<month>[A-Z][a-z]{{2}})\s+(?P<day>\d{{1,2}})\s(?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)\s
    | \d{{10,19}}(?=[\s:])\s?
    | \[(?:default|[Rr]ank[ ]?)(?P<tag>\d{{1,7}})\]:\s?
    | \[\d{{1,9}},(?P<mpi>\d{{1,7}})\]<std(?:out|err)>:\s?
    | (?P<task>\d{{1,7}}):\s
    | \([\w-]{{1,80}}(?:,\ rank=\d{{1,7}})?,?\ pid=\d{{1,9}}(?:,\ ip=(?P<ip>[\d.:a-f]{{1,40}}))?\)\s
    | std(?:out|err)\s[FP]\s
    | [\w.-]{{1,80}}\s{{1,20}}\|\s
    | [A-Za-z][\w.-]{{0,80}}/\d{{1,7}}\ (?=\S)
    | (?P<logger>{_HOST})\ (?:kernel|[\w.-]{{1,80}}\[\d{{1,9}}\]):\s
    | (?!\w{{1,16}}stepd-|[\w.-]{{1,120}}\.(?:py|sh):)
      (?P<host>(?=[\w.-]{{0,80}}\d)[a-z][\w-]{{0,62}}(?:\.[\w-]{{1,62}}){{0,6}}):\s
    )""",
    re.VERBOSE,
)
_DAEMON = re.compile(rf"\w{{1,16}}stepd(?:-({_HOST}))?: ")
"""The daemon of a node, whose lines have the label of the first rank there."""

_STAMP = re.compile(
    r"\[[EWIF](?P<month>\d{1,2})(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)"
    r"|\b[EWIF](?P<month2>\d\d)(?P<day2>\d\d) (?P<time2>\d\d:\d\d:\d\d(?:\.\d+)?)"
    r"|(?P<date>\d{4}-\d\d-\d\d)[T_ ](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)"
    r"|\b(?P<name>[A-Z][a-z]{2}) +(?P<day3>\d{1,2}) (?P<time3>\d\d:\d\d:\d\d(?:\.\d+)?)"
)
_NODE = re.compile(
    rf"\b(?P<nccl>{_HOST}):\d{{1,9}}:\d{{1,9}} \[\d{{1,5}}\]"
    rf"|: error: (?P<task>{_HOST}): tasks? "
    rf"|(?:on node|Node failure on|RUNNING AT) (?P<launch>{_HOST})"
    rf"|^(?P<kernel>{_HOST}) kernel: "
    rf"|^\s*host +: (?P<torchrun>{_HOST})"
    rf"|: (?P<ssh>{_HOST}): ssh exited "
)
_RANK = re.compile(
    r"\b(?:global |process )?(?:[Rr]ank|RANK)(?: ?: ?| |=|\[)(\d{1,7})\b(?!\.)"
    r"|\btask (\d{1,7}):|\[\[\d{1,9},\d{1,9}\],(\d{1,7})\]"
)
_TAG = re.compile(r"(?:\[(?:default|[Rr]ank ?)|,mpirank:)(\d{1,7})(?:,[^\]]{1,80})?\](?:<std\w+>)?:")
_TEXTS = ("log", "message", "msg", "textPayload")
_JSON = re.compile(r'\s*\{".{0,400}?"?(?:' + "|".join(_TEXTS) + '":)')
_TIMES = re.compile(
    r"\d{4}-\d\d-\d\d[T_ ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d"
    r"|[A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d(?:\.\d+)?|\d\d:\d\d:\d\d(?:[.,]\d+)?|\b\d{10,19}\b"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line comes from; what it does not say is None. `text` is the line without its label.

    `time` is as the line states it, `2026-03-04T08:10:08.391` or, without a year, `03-04T08:10:08.391`; with its zone
    if that is known and not UTC.
    """

    label: str
    text: str
    rank: int | None = None
    node: str | None = None
    time: str | None = None


def origin(line: str, label: str | None = None) -> Origin:
    """The origin of a line, whose label is found, or known to be its beginning `label`."""
    rank = node = time = None
    position = 0
    while (match := _PIECE.match(line, position)) and match.end() > position:
        rank, node, time = _read(match, rank, node, time)
        position = match.end()
    if label is not None:
        node = node if position or node else _whole_label(label)
        position = len(label)
    text = line[position:]
    if daemon := _DAEMON.match(text):
        node = short_host(daemon[1]) if daemon[1] else node
        return Origin(line[:position], text, rank, node, time or printed_time(text))
    if rank is None and (tag := _TAG.search(line[:200])):
        rank = whole(tag[1])
        if label is None:
            position = tag.end()
            text = line[position:].lstrip()
    if rank is None and (named := _RANK.search(text)):
        rank = whole(next(filter(None, named.groups())))
    if named := _NODE.search(text):
        node = short_host(next(filter(None, named.groups())))
    return Origin(line[:position], text, rank, node, time or printed_time(text))


def of_daemon(text: str) -> bool:
    """Whether the text of a line is that of a node's daemon."""
    return _DAEMON.match(text) is not None


def last_words(lines: Sequence[str], rank: int) -> str | None:
    """The last line with the label of a rank, but for those of its node's daemon; None without labels."""
    for line in reversed(lines):
        _, who, text = split_label(line)
        if who == rank and text.strip() and not _DAEMON.search(line[:200]):
            return text.strip()
    return None


def unwrapped(line: str) -> list[str]:
    """The lines of a text that a container engine, a collector or a logger wrapped in JSON; another line as it is."""
    if not _JSON.match(line):
        return [line]
    try:
        fields = json.loads(line)
    except ValueError:
        return [line]
    text = next((fields[name] for name in _TEXTS if isinstance(fields.get(name), str)), line)
    time = next((fields[name] for name in ("time", "timestamp", "ts") if isinstance(fields.get(name), str)), "")
    rank = f"[rank{fields['rank']}]: " if isinstance(fields.get("rank"), int) else ""
    return [f"{time} {rank}{each}".lstrip() if time else rank + each for each in text.strip("\n").split("\n")]


def without_times(text: str) -> str:
    """The text with a placeholder for each time, so that the labels of one writer are equal."""
    return _TIMES.sub("\0", text)


def printed_time(text: str) -> str | None:
    """The first time that a text states with its day."""
    stamp = _STAMP.search(text)
    if stamp is None:
        return None
    if stamp["date"]:
        return f"{stamp['date']}T{stamp['clock'].replace(',', '.')}"
    if stamp["name"]:
        return _named(stamp["name"], stamp["day3"], stamp["time3"])
    month, day, clock = (stamp[name] or stamp[f"{name}2"] for name in ("month", "day", "time"))
    return f"{int(month):02}-{day}T{clock}"


def short_host(name: str) -> str:
    """A host without its domain; an address as it is."""
    return name if name[:1].isdigit() else name.partition(".")[0]


def _read(
    match: re.Match[str], rank: int | None, node: str | None, time: str | None
) -> tuple[int | None, str | None, str | None]:
    named = match["tag"] or match["mpi"] or match["task"]
    host = match["host"] or match["logger"]
    if match["date"]:
        zone = match["zone"] if match["zone"] not in (None, "Z") and match["zone"].strip("+-0:") else ""
        zone = zone if ":" in zone or not zone else f"{zone[:3]}:{zone[3:]}"
        time = time or f"{match['date']}T{match['clock'].replace(',', '.')}{zone}"
    elif match["us"]:
        time = time or f"{match['year']}-{match['us'].replace('/', '-')}T{match['us_clock']}"
    elif match["month"]:
        time = time or _named(match["month"], match["day"], match["time"])
    return (
        whole(named) if named else rank,
        match["ip"] or (short_host(host) if host else node),
        time,
    )


def _named(month: str, day: str, clock: str) -> str | None:
    return f"{_MONTHS.index(month) + 1:02}-{int(day):02}T{clock}" if month in _MONTHS else None


def _whole_label(label: str) -> str | None:
    """The host of a label of pdsh and the like, which is a name and a colon."""
    match = re.fullmatch(rf"\s*({_HOST}): ?", label)
    return short_host(match[1]) if match else None
