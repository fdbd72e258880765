"""What of a workload this machine's GPUs can run: the sizes of the catalog by what they ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..catalog import workloads
from ..catalog.derived import row_type
from ..catalog.hardware import GpuType
from ..catalog.scales import scales
from ..model import Value, Workload


class Fit(Value, frozen=True):
    """A size that a number of GPUs can run, with the largest scale of the catalog that they suffice for."""

    size: str
    gpus: int
    proxy: bool = False


def fits(
    workload: Workload, gpu: GpuType, gpus: int, types: Mapping[str, GpuType], dtype: str | None = None,
    recipe: str | None = None,
) -> list[Fit]:  # fmt: skip
    """The sizes that have a row for these GPUs, or can borrow one, except the mini, in the order of preference.

    Whole models come before proxies, and models with more parameters before smaller ones. `types` has the lenders.
    """
    lenders = {size: row_type(workload, size, gpu, types, dtype, recipe) for size in workload.sizes}
    counts = {
        size: max((count for count in _scales(workload, size, lender, dtype, recipe) if count <= gpus), default=None)
        for size, lender in lenders.items()
    }
    fitting = [
        Fit(size=size, gpus=scale, proxy=_is_part(workload, size))
        for size, scale in counts.items()
        if scale and size != workloads.MINI
    ]
    return sorted(fitting, key=lambda fit: (fit.proxy, -_weight(workload, fit.size)))


def _is_part(workload: Workload, size: str) -> bool:
    """Whether a size is a proxy, or is named after another one (`405b-proxy`)."""
    return workload.sizes[size].proxy or any(size.startswith(f"{name}-") for name in workload.sizes)


def smallest(workload: Workload, gpu: GpuType, types: Mapping[str, GpuType]) -> tuple[str, int] | None:
    """The size, except the mini, that needs the fewest of these GPUs, and how many; None if there is none."""
    sizes = [
        (min(counts), size)
        for size in workload.sizes
        if size != workloads.MINI
        and (counts := [*_scales(workload, size, row_type(workload, size, gpu, types), None, None)])
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
