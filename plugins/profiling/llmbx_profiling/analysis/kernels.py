"""Classify kernels by name: short name, communication or computation, and collective operation. Pure."""

from __future__ import annotations

import functools
import re

_COMMUNICATION = re.compile(
    r"nccl|rccl|msccl|nvshmem|deep_ep|hybrid_?ep|userbuffers|cross_device_reduce"
    r"|(?:multimem|one_shot|two_shot)_(?:all_reduce|reduce_scatter|all_gather)",
    re.IGNORECASE,
)
"""Communication kernels: NCCL, NVSHMEM, DeepEP's and HybridEP's dispatch and combine, Transformer Engine's user
buffers, symmetric memory, and custom reductions over peers."""

_COLLECTIVE = re.compile(
    r"(AllReduce|AllGather|ReduceScatter|Broadcast|AllToAll|SendRecv|Reduce|Gather|Scatter|dispatch|combine)"
    r"|(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)",
    re.IGNORECASE,
)
_CANONICAL = {
    name.lower(): name
    for name in ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "AllToAll", "SendRecv", "Reduce", "Gather",
                 "Scatter")
}  # fmt: skip

_CUTLASS = re.compile(r"cutlass::\w+<(\w+)>")

ALL_RANK_COLLECTIVES = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AllToAll")
"""Collectives that all ranks of a communicator take part in at the same time."""

PEER_COPY = "[copy between GPUs]"
COPY = "[copy]"
SET = "[memory set]"
GRAPH = "[CUDA graph, traced whole]"


@functools.cache
def is_communication(name: str) -> bool:
    """Whether the kernel with this full, demangled name moves data between ranks."""
    return name == PEER_COPY or bool(_COMMUNICATION.search(name))


@functools.cache
def operation(name: str) -> str | None:
    """Return the collective operation of a communication kernel, or None."""
    match = _COLLECTIVE.search(name)
    if match is None:
        return None
    word = match[0].lower().replace("_", "")
    return _CANONICAL.get(word, word)


@functools.cache
def short(name: str) -> str:
    """Return a demangled name without return type, template arguments and parameters.

    CUTLASS kernels differ only in their first template argument, so it is kept.
    """
    bare: list[str] = []
    depth = 0
    for char in name.replace("(anonymous namespace)::", ""):
        depth += char in "<("
        if depth == 0:
            bare.append(char)
        depth = max(0, depth - (char in ">)"))
    words = [word for word in "".join(bare).split() if word not in ("const", "clone")]
    if name.startswith("[") or not words:
        return name
    kind = _CUTLASS.search(name)
    return f"{words[-1]}<{kind[1]}>" if kind and words[-1] == kind[0].partition("<")[0] else words[-1]
