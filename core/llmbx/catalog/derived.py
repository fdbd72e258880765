"""Rows that a GPU type borrows from another one, and all that runs on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..model import Workload
from .workloads import MINI, default_dtype, known_dtypes, known_gpu_types, known_scales

if TYPE_CHECKING:
    from .hardware import GpuType

ABOUT_GB = 16
"""A difference of memory up to this one leaves the choice of a lender to the generation."""


def row_type(
    workload: Workload, size: str, gpu: GpuType, gpus: Mapping[str, GpuType], dtype: str | None = None,
    recipe: str | None = None,
) -> str:  # fmt: skip
    """The GPU type whose rows a run on `gpu` has: its own, else that of the nearest NVIDIA GPU.

    The rows are in this dtype, or else in one that `gpu` has. GPUs with no more memory than `gpu` come before others,
    then those with about as much, then those of the closest generation. Without any it is the type itself.
    """
    names = known_gpu_types(workload, size, recipe)
    if gpu.name in names or "any" in names:
        return gpu.name
    lenders = [
        gpus[name]
        for name in names
        if name in gpus
        and any(
            gpu.can_borrow(gpus[name], row_dtype)
            for row_dtype in known_dtypes(workload, size, name, recipe)
            if dtype in (None, row_dtype)
        )
    ]
    if not lenders and dtype is not None:
        return row_type(workload, size, gpu, gpus, None, recipe)
    return min(lenders, key=lambda lender: _distance(lender, gpu), default=gpu).name


def cases(
    workload: Workload, gpu: GpuType, types: Mapping[str, GpuType], gpus: int | None = None
) -> Iterator[tuple[str, str, int, str]]:
    """Yield size, dtype, number of GPUs and GPU type of the row of all that runs on this GPU, and the mini on one GPU.

    With `gpus` only the largest number up to it is taken for each size and dtype.
    """
    for size in workload.sizes:
        rows_of = row_type(workload, size, gpu, types)
        for dtype in known_dtypes(workload, size, rows_of) if size != MINI else ():
            counts = known_scales(workload, size, dtype, rows_of) if gpu.computes(dtype) else []
            if gpus is not None:
                counts = [count for count in counts if count <= gpus][-1:]
            yield from ((size, dtype, count, rows_of) for count in counts)
    dtype_of_mini = default_dtype(workload, MINI, gpu.name, computes=gpu.computes)
    if MINI in workload.sizes and dtype_of_mini is not None:
        yield MINI, dtype_of_mini, 1, gpu.name


def _distance(lender: GpuType, gpu: GpuType) -> tuple[bool, float, float, float]:
    capabilities = [float(one.compute_capability or 0) for one in (lender, gpu)]
    memories = [one.memory_gb or 0 for one in (lender, gpu)]
    apart = abs(memories[0] - memories[1])
    return (
        not gpu.has_memory_of(lender),
        apart // ABOUT_GB,
        abs(capabilities[0] - capabilities[1]),
        apart,
    )
