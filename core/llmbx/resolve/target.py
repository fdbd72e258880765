"""Resolve size, dtype, GPU type and number of GPUs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..catalog import workloads
from ..catalog.derived import Memory, fits, row_type, smallest
from ..catalog.hardware import GpuType
from ..catalog.scales import admits
from ..errors import UsageError
from ..model import Workload
from ..model.launch import LOCAL
from ..phrases import did_you_mean, either
from .layers import Layers

MOST_GPUS = 1_000_000
"""The largest accepted number of GPUs; larger values are typing errors and would take long to process."""


def target_of(layers: Layers, workload: Workload, gpus: Mapping[str, GpuType], memory: Memory) -> dict[str, Any]:
    """Resolve size, dtype, GPU type, number of GPUs, and the GPU type `layout_of` whose row is borrowed.

    `memory` is what a row needs: that of a GPU with more memory is borrowed only if it is known. Raises `UsageError` if
    a value is missing or unknown.
    """
    recipe = layers.request.recipe
    workloads.require_recipe(workload, recipe)
    requested: int | None = layers.find("gpus")
    if requested is not None and requested > MOST_GPUS:
        raise UsageError(f"{layers.origins['gpus']} {requested}: expected at most {MOST_GPUS}")
    gpu_type, count = _gpu_type(layers, workload, gpus)
    gpu = GpuType.named(gpu_type, gpus)
    size = layers.find("size") or _default_size(layers, workload, gpu, count, gpus, memory)
    workloads.require_size(workload, size, recipe)
    dtype = layers.find("dtype")
    _require_dtype(layers, workload, size, gpu)
    rows_of = row_type(workload, size, gpu, gpus, dtype, recipe)
    known = workloads.known_dtypes(workload, size, rows_of, recipe)
    dtype = _of_rows(layers, dtype, known) if dtype else _default_dtype(layers, workload, size, rows_of, gpu)
    if not gpu.computes(dtype) and gpu_type not in workloads.known_gpu_types(workload, size, recipe):
        able = _computed(layers, workload, gpu, gpus)
        able = able or [name for name in _known_dtypes(layers, workload, size, rows_of) if gpu.computes(name)]
        what = f"{gpu_type} (compute capability {gpu.compute_capability}) has no {dtype}"
        raise UsageError(f"{what}: use --dtype {either(able)}" if able else what)
    fits_here = functools.partial(_fits_here, layers, gpu, count, functools.partial(memory, size, dtype, rows_of))
    scale = requested or _default_scale(layers, workload, size, dtype, rows_of, gpu_type, count, fits_here)
    lender = gpus.get(rows_of, gpu)
    may_borrow = gpu.has_memory_of(lender) or memory(size, dtype, rows_of, scale) is not None
    borrowed = None
    if rows_of != gpu_type and may_borrow:
        borrowed = layers.note("layout_of", rows_of, "the nearest GPU type with a recipe")
    return {"size": size, "dtype": dtype, "gpu_type": gpu_type, "gpus": scale, "layout_of": borrowed}


def _require_dtype(layers: Layers, workload: Workload, size: str, gpu: GpuType) -> None:
    """Raise `UsageError` if the mini that was chosen for want of another size does not have the requested dtype."""
    dtype, reason = layers.find("dtype"), layers.origins.get("size", "")
    if size != workloads.MINI or dtype is None or not reason.startswith("no recipe"):
        return
    if not gpu.computes(dtype):
        return
    dtypes = workloads.known_dtypes(workload, size, gpu.name, layers.request.recipe)
    of_all_rows = {name for recipe in workload.recipes for row in recipe.rows for name in row.dtypes}
    if dtype not in of_all_rows:
        raise UsageError(f"{workload.name} has no dtype '{dtype}'{did_you_mean(dtype, of_all_rows)}")
    if dtype not in dtypes:
        fix = f"use --dtype {either(dtypes)} for the mini, or --gpus N for a cluster"
        raise UsageError(f"{workload.name}: {reason}, nor has the mini: {fix}")


def _of_rows(layers: Layers, dtype: str, dtypes: Iterable[str]) -> str:
    """The dtype, or MXFP8 for FP8 where the rows have no other FP8: upstream's launch calls both FP8."""
    if dtype == "fp8" and "fp8" not in dtypes and "mxfp8" in dtypes:
        return str(layers.note("dtype", "mxfp8", f"{layers.origins['dtype']} fp8, which is MXFP8 in these recipes"))
    return dtype


def _computed(layers: Layers, workload: Workload, gpu: GpuType, gpus: Mapping[str, GpuType]) -> list[str]:
    """The dtypes with a row that a GPU has: of the requested size, else of all but the mini, else of the mini."""
    requested, recipe = layers.find("size"), layers.request.recipe

    def of_sizes(sizes: Iterable[str]) -> list[str]:
        dtypes = [
            dtype
            for size in sizes
            for dtype in workloads.known_dtypes(
                workload, size, row_type(workload, size, gpu, gpus, None, recipe), recipe
            )
        ]
        return [dtype for dtype in dict.fromkeys(dtypes) if gpu.computes(dtype)]

    if requested:
        return of_sizes([requested])
    return of_sizes(name for name in workload.sizes if name != workloads.MINI) or of_sizes([workloads.MINI])


def _gpu_type(
    layers: Layers, workload: Workload, gpus: Mapping[str, GpuType]
) -> tuple[str, int | None]:  # fmt: skip
    """Return the requested GPU type, or the detected one with its count.

    Without either, the type is derived from the rest of the request. Who names the machine's own type gets its count.
    """
    size = layers.find("size")
    if size is not None and size not in workload.sizes:
        raise UsageError(f"{workload.name} has no size '{size}'{did_you_mean(size, workload.sizes)}")
    requested = layers.find("gpu_type")
    if requested is not None:
        name = GpuType.named(requested, gpus).name
        _require_profiles_type(layers, name, gpus)
        detected = GpuType.detect(gpus)
        own = detected is not None and detected[0] == name and for_this_machine(layers, detected[1])
        return detected if own and detected is not None else (name, None)
    detected = GpuType.detect(gpus)
    if detected is not None:
        layers.note("gpu_type", detected[0], "this machine's GPUs")
        return detected
    if size is None and targets_cluster(layers):
        size = _usual_size(workload)
    if size in (None, workloads.MINI):
        return str(layers.note("gpu_type", "cpu", GpuType.why_cpu() or "no GPU on this machine")), None
    return _implied(layers, workload, size), None


def _require_profiles_type(layers: Layers, requested: str, gpus: Mapping[str, GpuType]) -> None:
    """Raise `UsageError` if the cluster profile is for other GPUs than the requested ones; every cluster has CPUs."""
    profile = layers.profile
    if profile is None or profile.cluster.gpu_type is None or requested == workloads.CPU:
        return
    own = GpuType.named(profile.cluster.gpu_type, gpus).name
    if own != requested:
        raise UsageError(
            f"{layers.origins['gpu_type']} {requested}, but the {profile.origin} has gpu_type {own}: choose a "
            f"profile of a cluster with {requested} (--cluster NAME), or none (LLMBX_CONFIG=/dev/null)"
        )


def targets_cluster(layers: Layers) -> bool:
    """Whether the request is for a cluster, so that the default size is the workload's and not its mini.

    True if it has a number of GPUs, a launcher other than `local`, or a cluster profile without a launcher.
    """
    launcher = layers.find("launcher")
    if launcher is None:
        return layers.profile is not None or layers.find("gpus") is not None
    return launcher != LOCAL or layers.find("gpus") is not None


def for_this_machine(layers: Layers, detected: int) -> bool:
    """Whether a request, made on a machine with this many GPUs, can only be for them: no cluster, no larger scale."""
    launcher, requested = layers.find("launcher"), layers.find("gpus")
    local = launcher == LOCAL or (launcher is None and layers.profile is None)
    return local and (requested or 1) <= detected


def _fitting_size(
    layers: Layers,
    workload: Workload,
    gpu: GpuType,
    detected: int,
    gpus: Mapping[str, GpuType],
    memory: Memory,
) -> str:
    """Return the largest size that this machine's GPUs can run, or the mini, and note their number.

    A row for fewer GPUs than requested is scaled to them.
    """
    requested, dtype = layers.find("gpus"), layers.find("dtype")
    count = requested or detected
    fit = next(fits(workload, gpu, count, gpus, memory, dtype, layers.request.recipe), None)
    if fit is None:
        if workloads.MINI not in workload.sizes:
            return _only_size(layers, workload)
        reason = _too_few(layers, workload, gpu, count, gpus, memory)
        return str(layers.note("size", workloads.MINI, reason))
    what = "the largest part of a model" if fit.proxy else "the largest size"
    recipe = "a recipe that scales to" if fit.scaled else "a recipe for"
    layers.note("size", fit.size, f"{what} with {recipe} {_machine(fit.gpus, gpu.name)}")
    return fit.size


def _too_few(
    layers: Layers,
    workload: Workload,
    gpu: GpuType,
    count: int,
    gpus: Mapping[str, GpuType],
    memory: Memory,
) -> str:
    """Why a machine with GPUs runs the mini."""
    least = smallest(workload, gpu, gpus)
    dtype = layers.find("dtype")
    if dtype is not None and any(fits(workload, gpu, count, gpus, memory, None, layers.request.recipe)):
        return f"no recipe for {_machine(count, gpu.name)} has {dtype}"
    if least is None and gpu.memory_gb is None:
        return f"the memory of {gpu.name} is not known: set [gpus.{gpu.name}] memory_gb in llmbx.toml"
    if least is None:
        return f"no recipe of {workload.name} fits {_machine(count, gpu.name)} with {gpu.memory_gb:.0f} GB"
    needed = _machine(least[1], gpu.name)
    return f"no recipe is for {_machine(count, gpu.name)}; {least[0]} is the smallest, with {needed}"


def _machine(gpus: int, gpu_type: str) -> str:
    return f"{gpus} {gpu_type}" + (" GPU" if gpus == 1 else " GPUs")


def _usual_size(workload: Workload) -> str | None:
    """Return the default size of a run on a cluster, or None."""
    return workload.default_size or (next(iter(workload.sizes)) if len(workload.sizes) == 1 else None)


def _implied(layers: Layers, workload: Workload, size: str) -> str:
    """Return the only GPU type in the catalog for this size, dtype and scale, or the workload's default.

    For machines without a GPU, such as login nodes.
    """
    dtype, scale = layers.find("dtype"), layers.find("gpus")
    rows = [row for _, row in workloads.rows_of(workload, size, layers.request.recipe)]
    matches = [row for row in rows if dtype in (None, *row.dtypes) and (scale is None or admits(row.gpus, scale))]
    types = list(dict.fromkeys(name for row in matches for name in row.gpu_types))
    if scale is not None and len(types) == 1:
        return str(layers.note("gpu_type", types[0], f"the only GPU type with {scale} GPUs in the catalog"))
    if workload.default_gpu_type in types:
        return str(layers.note("gpu_type", workload.default_gpu_type, f"default of {workload.name}"))
    choices = ", ".join(types or workloads.known_gpu_types(workload, size))
    raise UsageError(
        f"{workload.name} {size} needs a GPU cluster and this machine has no GPU: "
        f"add --gpu-type ({choices}), or use --size mini"
    )


def _default_size(
    layers: Layers,
    workload: Workload,
    gpu: GpuType,
    detected: int | None,
    gpus: Mapping[str, GpuType],
    memory: Memory,
) -> str:
    if gpu.name == "cpu" and "mini" in workload.sizes:
        return str(layers.note("size", "mini", "default without a GPU"))
    if detected is not None and for_this_machine(layers, detected):
        return _fitting_size(layers, workload, gpu, detected, gpus, memory)
    return _size_of_scale(layers, workload, gpu, gpus, memory) or _only_size(layers, workload)


def _size_of_scale(
    layers: Layers,
    workload: Workload,
    gpu: GpuType,
    gpus: Mapping[str, GpuType],
    memory: Memory,
) -> str | None:
    """The largest size with a row for the requested number of GPUs, if the default size has none; else None.

    The mini if no size fits, and the default size has no row of this GPU type.
    """
    scale = layers.find("gpus")
    if scale is None:
        return None
    fitting = fits(workload, gpu, scale, gpus, memory, layers.find("dtype"), layers.request.recipe)
    sizes = [fit.size for fit in fitting if fit.gpus == scale]
    usual = _usual_size(workload)
    has_rows = usual is None or gpu.name in workloads.known_gpu_types(workload, usual)
    if not sizes and not has_rows and workloads.MINI in workload.sizes:
        return str(layers.note("size", workloads.MINI, _too_few(layers, workload, gpu, scale, gpus, memory)))
    if not sizes or usual in sizes:
        return None
    return str(layers.note("size", sizes[0], f"the largest size with a recipe for {_machine(scale, gpu.name)}"))


def _only_size(layers: Layers, workload: Workload) -> str:
    usual = _usual_size(workload)
    if usual is None:
        raise UsageError(f"{workload.name} has no default size: add --size ({', '.join(workload.sizes)})")
    return str(layers.note("size", usual, f"default of {workload.name}" if workload.default_size else "the only size"))


def _default_dtype(
    layers: Layers, workload: Workload, size: str, rows_of: str, gpu: GpuType
) -> str:  # fmt: skip
    """The dtype of the rows of the GPU type `rows_of` that the GPU has."""
    chosen = workloads.default_dtype(
        workload, size, rows_of, layers.find("gpus"), layers.request.recipe, gpu.computes
    )  # fmt: skip
    if chosen is not None:
        origin = f"default of {workload.name} {size} on {gpu.name}"
        if (size, gpu.name, chosen) == (workloads.MINI, workloads.CPU, workloads.CPU_DTYPE):
            origin = "default of a mini on a CPU, for comparable runs on all CPUs"
        return str(layers.note("dtype", chosen, origin))
    dtypes = [name for name in _known_dtypes(layers, workload, size, rows_of) if gpu.computes(name)]
    raise UsageError(f"{workload.name} {size} on {gpu.name} has no default dtype: add --dtype {either(dtypes)}")


def _known_dtypes(layers: Layers, workload: Workload, size: str, gpu_type: str) -> list[str]:
    """Return the dtypes of the size's configurations for the GPU type. Raises `UsageError` if there are none."""
    recipe = layers.request.recipe
    dtypes = workloads.known_dtypes(workload, size, gpu_type, recipe)
    if not dtypes:
        what = f"{workload.name} {size}" + (f" in recipe {recipe}" if recipe else "")
        types = either(workloads.known_gpu_types(workload, size, recipe))
        problem = workloads.no_configuration(workload, size, what, gpu_type)
        raise UsageError(f"{problem}: use --gpu-type {types}")
    return dtypes


def _fits_here(layers: Layers, gpu: GpuType, detected: int | None, memory: Callable[[int], float | None]) -> bool:
    """Whether a row that is scaled to this machine's GPUs is known to fit their memory."""
    if detected is None or not for_this_machine(layers, detected):
        return False
    needed = memory(detected)
    return needed is not None and needed <= (gpu.memory_gb or 0)


def _default_scale(
    layers: Layers, workload: Workload, size: str, dtype: str, rows_of: str, gpu_type: str, detected: int | None,
    fits_here: Callable[[], bool],
) -> int:  # fmt: skip
    """The number of GPUs of a row of the GPU type `rows_of`, which is scaled to this machine's GPUs if it fits them."""
    if size == "mini":
        return int(layers.note("gpus", 1, "default of the mini"))
    counts = workloads.known_scales(workload, size, dtype, rows_of, layers.request.recipe)
    here = [count for count in counts if count <= (detected or 0)]
    if here:
        many = "" if here[-1] == detected else f": the most with a recipe of {detected}"
        return int(layers.note("gpus", here[-1], f"this machine's GPUs{many}"))
    if counts and fits_here():
        return int(layers.note("gpus", detected, "this machine's GPUs, to which the row is scaled"))
    if len(counts) == 1:
        return int(layers.note("gpus", counts[0], "the only scale in the catalog"))
    dtypes = _known_dtypes(layers, workload, size, rows_of)
    if dtype not in dtypes:
        problem = f"{workload.name} {size} on {gpu_type} has no {dtype} configuration"
        raise UsageError(f"{problem}: use --dtype {either(dtypes)}")
    scales = f"{', '.join(map(str, counts))}; others are scaled" if counts else "any number"
    what, add = f"{workload.name} {size} {dtype} on {gpu_type}", f"add --gpus N ({scales})"
    if counts and detected is not None and for_this_machine(layers, detected):
        has = f"this machine has {detected}; `llmbx list --here` lists what it can run"
        raise UsageError(f"{what} needs {counts[0]} GPUs or more: {add}; {has}")
    raise UsageError(f"{what}: {add}")
