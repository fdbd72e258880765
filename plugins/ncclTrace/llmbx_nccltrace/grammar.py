"""Parse lines of an NCCL log, as bytes, into messages. Handles intact, interleaved and truncated lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

FIGURES = re.compile(
    rb"count (\d{1,20}+) datatype (\d{1,9}+) op [^ ]++ root ([^ ]++) comm ([^ ]++) \[nranks=([1-9]\d{0,6}+)\]"
)
"""The fields of a record that are counted."""

RECORD = re.compile(
    rb"([A-Za-z]\w{0,63}+): opCount ([^ ]++) sendbuff [^ ]++ recvbuff [^ ]++ (?:acc [^ ]++ )?" + FIGURES.pattern
)
"""A collective's record (NCCL's `src/enqueue.cc`), up to `[nranks=8]`; what follows may be truncated.

RCCL adds `acc` since 2.27.
"""

_SOURCE = rb"[^\s:]+:\d+ (?:\([^)\s]*\) )?"  # file, line and function in front of NCCL INFO or WARN

CLEAN = re.compile(
    rb"^(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[\d.,]*+\] )?((?:\[[^]\n]*+\](?! (?:" + _SOURCE + rb")?NCCL ))?+"
    rb"[^[\n]*+\[\d++\] NCCL INFO [A-Za-z]\w{0,63}+): opCount [^ \n]++ sendbuff [^ \n]++ recvbuff [^ \n]++ "
    rb"(?:acc [^ \n]++ )?+(count [^[\n]*+\[nranks=\d++\]) stream [^ \n]++(?: task [^ \n]++ globalrank [^ \n]++)?+\n",
    re.MULTILINE,
)
"""Approximately, a line that is exactly one record. Groups: the text before `: opCount`, and `count` to nranks.

A label in brackets may precede the record, but no header of another message.
"""

COUNTED = b": opCount "
"""Occurs once in every collective's record; text that contains it and does not match `RECORD` was truncated."""

_HEADER = re.compile(
    rb"(?:(?<![^\s:\]])(?P<host>[^\s:\[\]]+):(?P<pid>\d+):\d+ )?\[(?P<device>-?\d+)\] "
    rb"(?P<source>" + _SOURCE + rb")?NCCL (?P<level>INFO|WARN) "
    # Some messages begin with a number in brackets. If another header follows, the number is that header's device.
    rb"(?:\[\d+\] (?!(?:" + _SOURCE + rb")?NCCL (?:INFO|WARN) ))?"
)
_STAMP = re.compile(rb"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\]?\s*")
_ANSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_POINTER = re.compile(rb"0x[0-9a-f]{1,16}")
_LABEL = 64


class Message(NamedTuple):
    """One message. `process` is `host:pid`, or the label and `[dev]` if the line names no host, or empty if unknown.

    `level` is INFO or WARN, or empty for text without a header.
    """

    process: bytes
    level: bytes
    text: bytes


def messages(line: bytes) -> Iterator[Message]:
    """Yield the messages of a line; there are several if the output of several writers was interleaved.

    A truncated line may have no header.
    """
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    start, process, level = 0, b"", b""
    for header in _HEADER.finditer(line):
        before = line[start : header.start()]
        if level or COUNTED in before:
            yield Message(process, level, before)
        process, level = _process(b"" if level else before, header), header["level"]
        start = header.end()
    yield Message(process, level, line[start:])


def _process(before: bytes, header: re.Match[bytes]) -> bytes:
    if header["host"]:
        return b"%s:%s" % (header["host"], header["pid"])
    label = _STAMP.sub(b"", before)
    if len(label) > _LABEL or b"0x" in label:
        label = b""
    return b"%s[%s]" % (label, header["device"])


def address(pointer: bytes) -> int | None:
    """Parse a pointer as printed by `%p`; 0 for `(nil)`, None if it is not valid."""
    if pointer == b"(nil)":
        return 0
    return int(pointer, 16) if _POINTER.fullmatch(pointer) else None


def canonical(before: bytes, after: bytes) -> bytes:
    """Rebuild a line from its `CLEAN` groups, with 0 in the fields that are not counted."""
    return b"%s: opCount 0 sendbuff 0 recvbuff 0 %s" % (before, after)
