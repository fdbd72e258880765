"""What NCCL's numbers mean: data types, operations, algorithms, protocols, subsystems (NCCL's `nccl.h`, `device.h`)."""

from __future__ import annotations

DATATYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16",
    "float8e4m3", "float8e5m2",
)  # fmt: skip
"""Names by `ncclDataType_t`; RCCL numbers them the same way."""

ELEMENT_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""Bytes of one element, in the order of `DATATYPES`."""

WHOLE = ("AllGather", "ReduceScatter")
"""Operations whose logged count is one rank's share: the message is count x ranks."""

POINT_TO_POINT = ("Send", "Recv", "PutSignal", "Signal", "WaitSignal")
"""Operations that ranks of one communicator may call unequally often."""

ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
"""Names by `NCCL_ALGO_*`, for TUNING lines before 2.27, which print numbers."""

PROTOCOLS = ("LL", "LL128", "SIMPLE")
"""Names by `NCCL_PROTO_*`."""

SUBSYSTEMS = (
    "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY", "NVLS",
    "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL",
)  # fmt: skip
"""What `NCCL_DEBUG_SUBSYS` may name; a leading ^ excludes."""


def datatype_name(number: int) -> str:
    """`bfloat16` for 9; a number that NCCL does not define stays a number."""
    return DATATYPES[number] if number < len(DATATYPES) else str(number)


def message_bytes(operation: str, datatype: int, count: int, ranks: int) -> int | None:
    """Bytes of the whole message of one call: count x element, x ranks for AllGather and ReduceScatter.

    None when the data type is not one that NCCL defines.
    """
    if datatype >= len(ELEMENT_BYTES):
        return None
    return count * ELEMENT_BYTES[datatype] * (ranks if operation in WHOLE else 1)


def bus_factor(operation: str, ranks: int) -> float | None:
    """Times `message_bytes`: the bytes a rank moves over its links (nccl-tests, PERFORMANCE.md).

    A Send counts once and its Recv not again. None for an operation without a known convention.
    """
    share = (ranks - 1) / ranks
    if operation == "AllReduce":
        return 2 * share
    if operation in WHOLE:
        return share
    if operation in ("AlltoAll", "AllToAll", "Gather", "Scatter"):
        return ranks - 1  # their count is one peer's share, so the message is a rank's share of the whole
    return {"Broadcast": 1.0, "Reduce": 1.0, "Send": 1.0, "Recv": 0.0}.get(operation)
