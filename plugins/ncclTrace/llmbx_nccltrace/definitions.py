"""NCCL's data types, operations, algorithms, protocols and subsystems (from NCCL's `nccl.h` and `device.h`)."""

from __future__ import annotations

DATATYPES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16",
    "float8e4m3", "float8e5m2",
)  # fmt: skip
"""Names by `ncclDataType_t`; RCCL uses the same numbers."""

ELEMENT_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""Bytes of one element, in the order of `DATATYPES`."""

PER_RANK_COUNT = ("AllGather", "ReduceScatter", "AlltoAll", "AllToAll", "Gather", "Scatter")
"""Operations whose logged count is one rank's share; the message is count x ranks."""

POINT_TO_POINT = ("Send", "Recv", "PutSignal", "Signal", "WaitSignal")
"""Operations that ranks of one communicator may call different numbers of times."""

ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
"""Names by `NCCL_ALGO_*`, for TUNING lines before 2.27, which print numbers."""

PROTOCOLS = ("LL", "LL128", "SIMPLE")
"""Names by `NCCL_PROTO_*`."""

SUBSYSTEMS = (
    "INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY", "NVLS",
    "BOOTSTRAP", "REG", "PROFILE", "RAS", "DESTROY", "ALL",
)  # fmt: skip
"""Valid names in `NCCL_DEBUG_SUBSYS`; a leading ^ excludes a subsystem."""


def datatype_name(number: int) -> str:
    """Return the name of a data type (`bfloat16` for 9), or the number as text if NCCL does not define it."""
    return DATATYPES[number] if number < len(DATATYPES) else str(number)


def message_bytes(operation: str, datatype: int, count: int, ranks: int) -> int | None:
    """Return the bytes of the whole message of one call: count x element size, x ranks for `PER_RANK_COUNT`.

    None if NCCL does not define the data type.
    """
    if datatype >= len(ELEMENT_BYTES):
        return None
    return count * ELEMENT_BYTES[datatype] * (ranks if operation in PER_RANK_COUNT else 1)


def bus_factor(operation: str, ranks: int) -> float | None:
    """Return the factor from `message_bytes` to the bytes a rank moves over its links (nccl-tests, PERFORMANCE.md).

    A transfer is counted by its Send, so the factor of Recv is 0. None if there is no convention for the operation.
    """
    share = (ranks - 1) / ranks
    if operation == "AllReduce":
        return 2 * share
    if operation in PER_RANK_COUNT:
        return share
    return {"Broadcast": 1.0, "Reduce": 1.0, "Send": 1.0, "Recv": 0.0}.get(operation)
