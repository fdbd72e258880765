"""What a GPU type can run: its rows or those that it borrows from another one, and the sizes that its memory holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..model import Value, Workload
from .scales import scales
from .workloads import MINI, default_dtype, known_dtypes, known_gpu_types, known_scales, rows_of

if TYPE_CHECKING:
    from .hardware import GpuType

ABOUT_GB = 16
"""A difference of memory up to this one leaves the choice of a lender to the generation."""

Memory = Callable[[str, str, str, int], float | None]
"""The memory in GB that a GPU needs for the row of a size, dtype, GPU type and number of GPUs; None if unknown."""


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

    With `gpus` only the largest number up to it is taken for each size and dtype; whole models without one are scaled.
    """
    for size in workload.sizes:
        rows_type = row_type(workload, size, gpu, types)
        for dtype in known_dtypes(workload, size, rows_type) if size != MINI else ():
            counts = known_scales(workload, size, dtype, rows_type) if gpu.computes(dtype) else []
            if gpus is not None:
                scaled = [gpus] if counts and not _is_part(workload, size) else []
                counts = [count for count in counts if count <= gpus][-1:] or scaled
            yield from ((size, dtype, count, rows_type) for count in counts)
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


class Fit(Value, frozen=True):
    """A size that a number of GPUs can run, with the largest scale of the catalog that they suffice for.

    `scaled` is True if they are fewer than those of its smallest row, which is scaled to all of them.
    """

    size: str
    gpus: int
    proxy: bool = False
    scaled: bool = False


def fits(
    workload: Workload,
    gpu: GpuType,
    gpus: int,
    types: Mapping[str, GpuType],
    memory: Memory,
    dtype: str | None = None,
    recipe: str | None = None,
) -> Iterator[Fit]:
    """Yield the sizes that these GPUs can run, except the mini, in the order of preference.

    They have a row, or can borrow one: of a GPU with no more memory, or one whose `memory` fits. The smallest row of a
    whole model is scaled to fewer GPUs if its `memory` fits them. Whole models come before parts, rows before scaled
    ones, and models with more parameters before smaller ones. `types` has the lenders.
    """
    fitting = []
    for size in workload.sizes:
        rows_type = row_type(workload, size, gpu, types, dtype, recipe)
        counts = [*_scales(workload, size, rows_type, dtype, recipe)] if size != MINI else []
        scale = max((count for count in counts if count <= gpus), default=None)
        fit = Fit(size=size, gpus=scale or gpus, proxy=_is_part(workload, size), scaled=scale is None)
        if scale or (counts and not fit.proxy):
            fitting.append((fit, types.get(rows_type, gpu)))
    for fit, lender in sorted(fitting, key=lambda pair: _preference(workload, pair[0])):
        may_borrow = gpu.has_memory_of(lender) and not fit.scaled
        if may_borrow or _fits_memory(workload, fit, gpu, lender, memory, dtype, recipe):
            yield fit


def _fits_memory(
    workload: Workload,
    fit: Fit,
    gpu: GpuType,
    lender: GpuType,
    memory: Memory,
    dtype: str | None,
    recipe: str | None,
) -> bool:
    """Whether the row of a GPU with more memory, or one for more GPUs, is known to fit."""
    dtype = dtype or default_dtype(workload, fit.size, lender.name, fit.gpus, recipe, gpu.computes)
    needed = memory(fit.size, dtype, lender.name, fit.gpus) if dtype else None
    return needed is not None and needed <= (gpu.memory_gb or 0)


def _preference(workload: Workload, fit: Fit) -> tuple[bool, bool, float]:
    return fit.proxy, fit.scaled, -_weight(workload, fit.size)


def _is_part(workload: Workload, size: str) -> bool:
    """Whether a size is a proxy, or is named after another one (`405b-proxy`)."""
    return workload.sizes[size].proxy or any(size.startswith(f"{name}-") for name in workload.sizes)


def smallest(workload: Workload, gpu: GpuType, types: Mapping[str, GpuType]) -> tuple[str, int] | None:
    """The size, except the mini, that needs the fewest of these GPUs, and how many; None if there is none.

    Rows of GPUs with more memory are left out.
    """
    lenders = {size: row_type(workload, size, gpu, types) for size in workload.sizes if size != MINI}
    sizes = [
        (min(counts), size)
        for size, lender in lenders.items()
        if gpu.has_memory_of(types.get(lender, gpu)) and (counts := [*_scales(workload, size, lender, None, None)])
    ]
    return (min(sizes)[1], min(sizes)[0]) if sizes else None


def _scales(workload: Workload, size: str, gpu_type: str, dtype: str | None, recipe: str | None) -> Iterator[int]:
    for _, row in rows_of(workload, size, recipe):
        if gpu_type in row.gpu_types and dtype in (None, *row.dtypes):
            yield from scales(row.gpus)


def _weight(workload: Workload, size: str) -> float:
    """About the number of parameters: enough to put sizes in order."""
    model = workload.sizes[size].model
    per_layer = model.ffn_hidden_size * max(model.experts or 1, 1) + model.hidden_size
    return float(model.layers * model.hidden_size * per_layer)
