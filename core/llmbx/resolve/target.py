"""Resolve size, dtype, GPU type and number of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..catalog import hardware, workloads
from ..catalog.scales import admits
from ..errors import UsageError, did_you_mean
from ..model import Workload
from .layers import Layers

MOST_GPUS = 1_000_000
"""The largest accepted number of GPUs; larger values are typing errors and would take long to process."""


def target_of(layers: Layers, workload: Workload, gpus: Mapping[str, hardware.GpuType]) -> dict[str, Any]:
    """Resolve size, dtype, GPU type and number of GPUs. Raises `UsageError` if one is missing or unknown."""
    workloads.require_recipe(workload, layers.request.recipe)
    requested: int | None = layers.find("gpus")
    if requested is not None and requested > MOST_GPUS:
        raise UsageError(f"{layers.origins['gpus']} {requested}: expected at most {MOST_GPUS}")
    gpu_type, count = _gpu_type(layers, workload, gpus)
    size = layers.find("size") or _default_size(layers, workload, gpu_type)
    workloads.require_size(workload, size, layers.request.recipe)
    dtype = layers.find("dtype") or _default_dtype(layers, workload, size, gpu_type)
    scale = requested or _default_scale(layers, workload, size, dtype, gpu_type, count)
    return {"size": size, "dtype": dtype, "gpu_type": gpu_type, "gpus": scale}


def _gpu_type(
    layers: Layers, workload: Workload, gpus: Mapping[str, hardware.GpuType]
) -> tuple[str, int | None]:  # fmt: skip
    """Return the requested GPU type, or the detected one with its count.

    Without either, the type is derived from the rest of the request.
    """
    size = layers.find("size")
    if size is not None and size not in workload.sizes:
        raise UsageError(f"{workload.name} has no size '{size}'{did_you_mean(size, workload.sizes)}")
    requested = layers.find("gpu_type")
    if requested is not None:
        name = hardware.gpu(requested, gpus).name
        _require_profiles_type(layers, name, gpus)
        return name, None
    detected = hardware.detect(gpus)
    if detected is not None:
        layers.note("gpu_type", detected[0], "this machine's GPUs")
        return detected
    if size is None and targets_cluster(layers):
        size = _usual_size(workload)
    if size in (None, workloads.MINI):
        return str(layers.note("gpu_type", "cpu", "no GPU on this machine")), None
    return _implied(layers, workload, size), None


def _require_profiles_type(layers: Layers, requested: str, gpus: Mapping[str, hardware.GpuType]) -> None:
    """Raise `UsageError` if the cluster profile is for other GPUs than the requested ones; every cluster has CPUs."""
    profile = layers.profile
    if profile is None or profile.cluster.gpu_type is None or requested == workloads.CPU:
        return
    known = hardware.gpu(profile.cluster.gpu_type, gpus).name
    if known != requested:
        raise UsageError(
            f"{layers.origins['gpu_type']} {requested}, but the {profile.origin} has gpu_type {known}: choose a "
            f"profile of a cluster with {requested} (--cluster NAME), or none (LLMBX_CONFIG=/dev/null)"
        )


def targets_cluster(layers: Layers) -> bool:
    """Whether the request is for a cluster, so that the default size is the workload's and not its mini.

    True if it has a number of GPUs, a launcher other than `local`, or a cluster profile.
    """
    launcher = layers.find("launcher")
    remote = launcher is not None and launcher != "local"
    return remote or layers.profile is not None or layers.find("gpus") is not None


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
    known = ", ".join(types or workloads.known_gpu_types(workload, size))
    raise UsageError(
        f"{workload.name} {size} needs a GPU cluster and this machine has no GPU: "
        f"add --gpu-type ({known}), or use --size mini"
    )


def _default_size(layers: Layers, workload: Workload, gpu_type: str) -> str:
    if gpu_type == "cpu" and "mini" in workload.sizes:
        return str(layers.note("size", "mini", "default without a GPU"))
    usual = _usual_size(workload)
    if usual is None:
        raise UsageError(f"{workload.name} has no default size: add --size ({', '.join(workload.sizes)})")
    return str(layers.note("size", usual, f"default of {workload.name}" if workload.default_size else "the only size"))


def _default_dtype(layers: Layers, workload: Workload, size: str, gpu_type: str) -> str:
    chosen = workloads.default_dtype(workload, size, gpu_type, layers.find("gpus"), layers.request.recipe)
    if chosen is not None:
        origin = f"default of {workload.name} {size} on {gpu_type}"
        if (size, gpu_type, chosen) == (workloads.MINI, workloads.CPU, workloads.CPU_DTYPE):
            origin = "default of a mini on a CPU, for comparable runs on all CPUs"
        return str(layers.note("dtype", chosen, origin))
    known = workloads.known_dtypes(workload, size, gpu_type, layers.request.recipe)
    if not known:
        recipe = layers.request.recipe
        what = f"{workload.name} {size}" + (f" in recipe {recipe}" if recipe else "")
        types = ", ".join(workloads.known_gpu_types(workload, size, recipe))
        raise UsageError(f"{what} has no configuration for {gpu_type} (known: {types})")
    raise UsageError(f"{workload.name} {size} on {gpu_type} has no default dtype: add --dtype {' or '.join(known)}")


def _default_scale(
    layers: Layers, workload: Workload, size: str, dtype: str, gpu_type: str, detected: int | None
) -> int:
    if size == "mini":
        return int(layers.note("gpus", 1, "default of the mini"))
    known = workloads.known_scales(workload, size, dtype, gpu_type, layers.request.recipe)
    if detected in known:
        return int(layers.note("gpus", detected, "this machine's GPUs"))
    if len(known) == 1:
        return int(layers.note("gpus", known[0], "the only scale in the catalog"))
    scales = ", ".join(map(str, known)) or "none in the catalog"
    raise UsageError(f"{workload.name} {size} {dtype} on {gpu_type}: add --gpus N ({scales})")
