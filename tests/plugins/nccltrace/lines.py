"""NCCL log lines with arbitrary fields, and a simple second parser to compare results with."""

from __future__ import annotations

import re
from collections import Counter

SIZES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 1, 11: 1}
"""Bytes of an element by data type number, from NCCL's nccl.h."""

PER_RANK = ("AllGather", "ReduceScatter", "AlltoAll", "AllToAll", "Gather", "Scatter")
"""Operations with a message of count elements for each rank (NCCL and RCCL spell AlltoAll differently)."""


def coll(
    op: str = "AllReduce", *, host: str | None = "node1", pid: int = 4711, dev: int = 0, count: int = 1024,
    dtype: int = 9, comm: str = "0x55a0", nranks: int = 8, number: int = 1,
    stream: str = "0x5555630c58b0", label: str = "", send: str = "0x7ffb4713c200", acc: str = "", tail: str = "",
    root: int = 0,
) -> str:  # fmt: skip
    """Return one collective's line, without its line terminator."""
    return (
        f"{head(host, pid, dev, label)}{op}: opCount {number:x} sendbuff {send} recvbuff 0x7ffb4713c200 {acc}"
        f"count {count} datatype {dtype} op 0 root {root} comm {comm} [nranks={nranks}] stream {stream}{tail}"
    )


def head(host: str | None = "node1", pid: int = 4711, dev: int = 0, label: str = "") -> str:
    """Return the header before a message."""
    return f"{label}{host}:{pid}:{pid + 9} [{dev}] NCCL INFO " if host else f"{label}[{dev}] NCCL INFO "


def opened(
    rank: int, nranks: int, *, host: str | None = "node1", pid: int = 4711, dev: int = 0, comm: str = "0x55a0",
    identity: str = "0xabc", name: str = "ncclCommInitRank ",
) -> str:  # fmt: skip
    """Return the line that reports that a communicator is initialized in one process."""
    return (
        f"{head(host, pid, dev)}{name}comm {comm} rank {rank} nranks {nranks} cudaDev {dev} nvmlDev {dev} "
        f"busId 1a000 commId {identity} - Init COMPLETE"
    )


def message(op: str, dtype: int, nranks: int, count: int) -> int:
    """Return the bytes of the whole message by the documented convention."""
    return count * SIZES[dtype] * (nranks if op in PER_RANK else 1)


def oracle(text: str) -> tuple[Counter[tuple[str, int, int, int]], int, int]:
    """Return calls by (op, dtype, nranks, count), truncated records and lines, by splitting lines at spaces."""
    found: Counter[tuple[str, int, int, int]] = Counter()
    cut, lines = 0, text.split("\n")
    if lines[-1] == "":
        lines.pop()
    for line in lines:
        line = re.sub(r"( recvbuff \S+) acc \S+( count )", r"\1\2", line)
        before, *pieces = line.split(": opCount ")
        for piece in pieces:
            record = _record(before, piece)
            if record:
                found[record] += 1
            else:
                cut += 1
            before = piece
    return found, cut, len(lines)


def _record(before: str, after: str) -> tuple[str, int, int, int] | None:
    name = re.split(r"[^A-Za-z0-9_]", before)[-1].lstrip("0123456789_")
    words = after.split(" ")
    if not name or len(words) < 16 or "" in words[:15]:
        return None
    if words[1:15:2] != ["sendbuff", "recvbuff", "count", "datatype", "op", "root", "comm"]:
        return None
    nranks = re.match(r"\[nranks=([1-9][0-9]{0,6})\]", words[15])
    count, dtype = words[6], words[8]
    if not (nranks and re.fullmatch("[0-9]{1,20}", count) and re.fullmatch("[0-9]{1,9}", dtype)):
        return None
    return name, int(dtype), int(nranks[1]), int(count)
