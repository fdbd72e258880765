"""Rows that the catalog does not have: borrowed from another GPU type, or scaled to another number of GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..model import Finding, Recipe, Row, Value, Workload
from ..phrases import either
from .hardware import GpuType
from .scales import evaluate, scales
from .workloads import MINI, default_dtype, known_dtypes, known_gpu_types, known_scales


class Scaled(Value, frozen=True):
    """A row for a number of GPUs that its recipe lacks; `gpus` is the number that it was scaled from."""

    recipe: Recipe
    row: Row
    gpus: int
    finding: Finding


def row_type(
    workload: Workload, size: str, gpu: GpuType, gpus: Mapping[str, GpuType], dtype: str | None = None,
    recipe: str | None = None,
) -> str:  # fmt: skip
    """The GPU type whose rows a run on `gpu` has: its own, else that of the nearest NVIDIA GPU.

    Nearest is the GPU of the closest generation, then with the most memory, that has no more memory than `gpu` and a
    row in this dtype, or else in one that `gpu` has. Without one it is the type itself.
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
    return min(lenders, key=lambda lender: (_apart(lender, gpu), -(lender.memory_gb or 0)), default=gpu).name


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


def scaled(rows: Sequence[tuple[Recipe, Row]], to: int, what: str) -> Scaled:
    """The nearest of the rows for `to` GPUs: layout and samples of a data-parallel rank are kept.

    A layout that divides the GPUs, and a whole batch, come before a near number of GPUs. `what` names the rows in the
    finding, which is an error if none can be scaled.
    """
    pairs = [(recipe, row, count) for recipe, row in rows for count in scales(row.gpus)]
    recipe, row, count = min(pairs, key=lambda pair: _distance(pair[1], pair[2], to))
    gbs, unit = evaluate(row.gbs, count), _unit(row, count)
    if to % unit == 0:
        finding = Finding(
            rule="scaled",
            problem=f"scaled from {count} to {to} GPUs, with the batch of a data-parallel rank; no published figure",
            fix="compare it with runs that are scaled in the same way",
            warning=True,
        )
    else:
        nearest = [number for number in (to // unit * unit, (to // unit + 1) * unit) if number]
        problem = f"{what} has no configuration for {to} GPUs, and that for {count} GPUs does not scale to them"
        finding = Finding(rule="gpus", problem=problem, fix=f"use --gpus {either(nearest)}")
    fsdp = evaluate(row.fsdp, count) if isinstance(row.fsdp, str) and to % unit else row.fsdp
    row = row.replace(gbs=Row.scaled_batch(gbs, count, to) or max(1, gbs * to // count), fsdp=fsdp)
    return Scaled(recipe=recipe, row=row, gpus=count, finding=finding)


def _unit(row: Row, count: int) -> int:
    """The numbers of GPUs that a row scales to are the multiples of this one."""
    whole_batch = count // math.gcd(evaluate(row.gbs, count), count)
    ranks = row.tp * row.pp * row.cp
    experts = row.pp * (row.ep or 1) * (row.etp or row.tp) if row.ep else 1
    shards = int(row.fsdp.partition("/")[2] or 1) if isinstance(row.fsdp, str) else int(row.fsdp) * ranks or 1
    return math.lcm(whole_batch, ranks, experts if count % experts == 0 else 1, shards if count % shards == 0 else 1)


def _distance(row: Row, count: int, to: int) -> tuple[bool, float]:
    return to % _unit(row, count) != 0, abs(math.log2(to / count))


def _apart(one: GpuType, two: GpuType) -> float:
    return abs(float(one.compute_capability or 0) - float(two.compute_capability or 0))
