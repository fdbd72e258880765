"""What of a workload this machine's GPUs can run: the sizes of the catalog by what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ..catalog import workloads
from ..catalog.derived import row_type
from ..catalog.hardware import GpuType
from ..catalog.scales import scales
from ..model import Value, Workload

Memory = Callable[[str, str, str, int], float | None]
"""The memory in GB that a GPU needs for the row of a size, dtype, GPU type and number of GPUs; None if unknown."""


class Fit(Value, frozen=True):
    """A size that a number of GPUs can run, with the largest scale of the catalog that they suffice for."""

    size: str
    gpus: int
    proxy: bool = False


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

    They have a row, or can borrow one: of a GPU with no more memory, or one whose `memory` fits. Whole models come
    before parts, and models with more parameters before smaller ones. `types` has the lenders.
    """
    fitting = []
    for size in workload.sizes:
        rows_of = row_type(workload, size, gpu, types, dtype, recipe)
        counts = _scales(workload, size, rows_of, dtype, recipe)
        scale = max((count for count in counts if count <= gpus), default=None)
        if scale and size != workloads.MINI:
            fit = Fit(size=size, gpus=scale, proxy=_is_part(workload, size))
            fitting.append((fit, types.get(rows_of, gpu)))
    for fit, lender in sorted(fitting, key=lambda pair: _preference(workload, pair[0])):
        if gpu.has_memory_of(lender) or _fits_memory(workload, fit, gpu, lender, memory, dtype, recipe):
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
    """Whether the row of a GPU with more memory is known to fit."""
    dtype = dtype or workloads.default_dtype(workload, fit.size, lender.name, fit.gpus, recipe, gpu.computes)
    needed = memory(fit.size, dtype, lender.name, fit.gpus) if dtype else None
    return needed is not None and needed <= (gpu.memory_gb or 0)


def _preference(workload: Workload, fit: Fit) -> tuple[bool, float]:
    return fit.proxy, -_weight(workload, fit.size)


def _is_part(workload: Workload, size: str) -> bool:
    """Whether a size is a proxy, or is named after another one (`405b-proxy`)."""
    return workload.sizes[size].proxy or any(size.startswith(f"{name}-") for name in workload.sizes)


def smallest(workload: Workload, gpu: GpuType, types: Mapping[str, GpuType]) -> tuple[str, int] | None:
    """The size, except the mini, that needs the fewest of these GPUs, and how many; None if there is none.

    Rows of GPUs with more memory are left out.
    """
    lenders = {size: row_type(workload, size, gpu, types) for size in workload.sizes if size != workloads.MINI}
    sizes = [
        (min(counts), size)
        for size, lender in lenders.items()
        if gpu.has_memory_of(types.get(lender, gpu)) and (counts := [*_scales(workload, size, lender, None, None)])
    ]
    return (min(sizes)[1], min(sizes)[0]) if sizes else None


def _scales(workload: Workload, size: str, gpu_type: str, dtype: str | None, recipe: str | None) -> Iterator[int]:
    for _, row in workloads.rows_of(workload, size, recipe):
        if gpu_type in row.gpu_types and dtype in (None, *row.dtypes):
            yield from scales(row.gpus)


def _weight(workload: Workload, size: str) -> float:
    """About the number of parameters: enough to put sizes in order."""
    model = workload.sizes[size].model
    per_layer = model.ffn_hidden_size * max(model.experts or 1, 1) + model.hidden_size
    return float(model.layers * model.hidden_size * per_layer)
