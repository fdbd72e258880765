"""The grammar of one line of an NCCL log, in bytes: who says what. It reads whole, joined and cut lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

FIGURES = re.compile(
    rb"count (\d{1,20}+) datatype (\d{1,9}+) op [^ ]++ root [^ ]++ comm ([^ ]++) \[nranks=([1-9]\d{0,6}+)\]"
)
"""The part of a record that counts depend on."""

RECORD = re.compile(rb"([A-Za-z]\w*+): opCount [^ ]++ sendbuff [^ ]++ recvbuff [^ ]++ " + FIGURES.pattern)
"""A collective's line (NCCL's `src/enqueue.cc`) as far as it must be whole to be counted: to `[nranks=8]`."""

CLEAN = re.compile(
    rb"^(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[\d.,]*+\] )?((?:\[[^]\n]*+\])?[^[]*+\[\d++\] "
    rb"NCCL INFO [A-Za-z]\w*+): opCount [^ ]++ sendbuff [^ ]++ recvbuff [^ ]++ (count [^[]*+\[nranks=\d++\]) stream "
    rb"[^ \n]++(?: task [^ ]++ globalrank [^ \n]++)?+\n",
    re.MULTILINE,
)
"""Loosely, a line that is one record and nothing else: what stands before `: opCount`, and from `count` to nranks."""

COUNTED = b": opCount "
"""Every collective's line has it once; what has it and is no `RECORD` was cut."""

_SOURCE = rb"[^\s:]+:\d+ (?:\([^)\s]*\) )?"
_SPEAKER = re.compile(
    rb"(?:(?P<host>[^\s:]+):(?P<pid>\d+):\d+ )?\[(?P<device>-?\d+)\] "
    rb"(?P<source>" + _SOURCE + rb")?NCCL (?P<level>INFO|WARN) "
    # Some messages begin with a number in brackets; where another header follows it, it is that header's device.
    rb"(?:\[\d+\] (?!(?:" + _SOURCE + rb")?NCCL (?:INFO|WARN) ))?"
)
_STAMP = re.compile(rb"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\]?\s*")
_ANSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_POINTER = re.compile(rb"0x[0-9a-f]{1,16}")
_LABEL = 64


class Said(NamedTuple):
    """One message. `who` is `host:pid`, or the label and `[dev]` where the line names no host, or empty if unknown.

    `level` is INFO or WARN, or empty for what no header announces.
    """

    who: bytes
    level: bytes
    text: bytes


def messages(line: bytes) -> Iterator[Said]:
    """The messages of a line; several when the lines of several writers were joined, none announced when it was cut."""
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    start, who, level = 0, b"", b""
    for speaker in _SPEAKER.finditer(line):
        before = line[start : speaker.start()]
        if level or COUNTED in before:
            yield Said(who, level, before)
        who, level = _who(b"" if level else before, speaker), speaker["level"]
        start = speaker.end()
    yield Said(who, level, line[start:])


def _who(before: bytes, speaker: re.Match[bytes]) -> bytes:
    if speaker["host"]:
        return b"%s:%s" % (speaker["host"], speaker["pid"])
    label = _STAMP.sub(b"", before)
    if len(label) > _LABEL or b"0x" in label:
        label = b""
    return b"%s[%s]" % (label, speaker["device"])


def address(pointer: bytes) -> int | None:
    """The number that a `%p` prints, 0 for `(nil)`; None when it is not one."""
    if pointer == b"(nil)":
        return 0
    return int(pointer, 16) if _POINTER.fullmatch(pointer) else None


def canonical(before: bytes, after: bytes) -> bytes:
    """The line whose `CLEAN` groups these are, with nothing in the fields that no count depends on."""
    return b"%s: opCount 0 sendbuff 0 recvbuff 0 %s" % (before, after)
