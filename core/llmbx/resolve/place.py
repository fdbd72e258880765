"""Where it runs: GPUs a node, launcher, runtime, image, time limits."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from ..catalog import hardware, workloads
from ..errors import UsageError
from ..launchers import slurm_time
from ..model import ImageSource, PreflightSpec, Recipe, Workload
from .layers import Layers
from .length import TRACE_WALLTIME_MINUTES, is_traced

PREFLIGHT_GPUS = 64
"""Above so many GPUs the nodes are looked at before the framework starts, unless the user says otherwise."""


def place(
    layers: Layers,
    workload: Workload,
    gpus: Mapping[str, hardware.GpuType],
    target: Mapping[str, Any],
    recipe: Recipe,
    scheduler: Mapping[str, str],
) -> dict[str, Any]:
    """Where it runs: GPUs a node, launcher, runtime, image, time limits. `scheduler` are the scheduler's options."""
    default = hardware.gpu(target["gpu_type"], gpus).gpus_per_node
    per_node = layers.find("gpus_per_node")
    if per_node is None:
        per_node = layers.note("gpus_per_node", default or target["gpus"], f"{target['gpu_type']} nodes")
    if per_node < 1:
        raise UsageError(f"GPUs per node: expected a number of at least 1, not {per_node}")
    per_node = min(per_node, target["gpus"])
    image: str | None = layers.request.image
    source = ImageSource(reference=image, source="--image") if image else recipe.image
    if source:
        layers.note("image", source.reference, "--image" if image else f"recipe {recipe.name}")
    launcher = layers.find("launcher")
    if launcher is None:
        launcher = layers.note(
            "launcher", *_launcher(layers.allocation, target["gpus"] > per_node, target["gpu_type"] != "cpu")
        )
    return {
        "gpus_per_node": per_node,
        "launcher": launcher,
        "runtime": layers.find("runtime") or layers.note("runtime", "auto", "default"),
        "image": source,
        "accept_image_change": layers.request.accept_image_change,
        "walltime_minutes": _walltime(layers, workload, recipe, target, scheduler if launcher == "slurm" else {}),
        "stall_timeout_s": layers.request.stall_timeout_s,
        "retries": layers.find("retries") or 0,
        "preflight": _preflight(layers, launcher, target),
    }


def _preflight(layers: Layers, launcher: str, target: Mapping[str, Any]) -> PreflightSpec | None:
    """Whether every node is looked at first: as asked, else on many GPUs, where one bad node is likely."""
    asked: bool | None = layers.find("preflight")
    if asked and launcher != "slurm":
        raise UsageError("--preflight looks at the nodes of a Slurm job: use --launcher slurm, or leave it out")
    if asked is None and launcher == "slurm" and target["gpu_type"] != "cpu" and target["gpus"] > PREFLIGHT_GPUS:
        asked = bool(layers.note("preflight", True, f"the run has more than {PREFLIGHT_GPUS} GPUs"))
    return PreflightSpec() if asked else None


def _launcher(allocation: str | None, several: bool, on_gpus: bool) -> tuple[str, str]:
    """The launcher where none was asked for, and why."""
    if allocation and shutil.which("srun"):
        return "slurm", f"inside Slurm job {allocation}"
    if several:
        return "slurm", "the run takes several nodes"
    if on_gpus and shutil.which("sbatch") and not shutil.which("nvidia-smi"):
        return "slurm", "no GPU on this machine, and Slurm is there"
    return "local", "default for one node"


def _walltime(
    layers: Layers, workload: Workload, recipe: Recipe, target: Mapping[str, Any], scheduler: Mapping[str, str]
) -> int | None:
    asked: int | None = layers.request.walltime_minutes
    if asked is not None:
        return int(layers.note("walltime_minutes", asked, "--walltime"))
    if "time" in scheduler:
        return _scheduler_time(layers, scheduler["time"])
    limit = _usual_walltime(layers, workload, recipe, target)
    if is_traced(layers) and (limit is None or limit > TRACE_WALLTIME_MINUTES):
        return int(layers.note("walltime_minutes", TRACE_WALLTIME_MINUTES, "a traced run's length"))
    return limit


def _scheduler_time(layers: Layers, text: str) -> int | None:
    """The time limit that the job gets, since the script's last word is the scheduler option's."""
    origin = f"scheduler option time={text} ({layers.origins['scheduler.time']})"
    try:
        limit = slurm_time.minutes(text)
    except ValueError as error:
        raise UsageError(f"{origin} is no time limit: {error}") from None
    layers.note("walltime_minutes", limit, origin)
    return limit


def _usual_walltime(layers: Layers, workload: Workload, recipe: Recipe, target: Mapping[str, Any]) -> int | None:
    if layers.profile:
        limits = layers.profile.cluster.walltime_minutes
        for key in (workload.name, *workload.aliases, "default"):
            if key in limits:
                return int(layers.note("walltime_minutes", limits[key], layers.profile.origin))
    limit = workloads.walltime_minutes(recipe, target["size"], target["gpu_type"])
    return None if limit is None else int(layers.note("walltime_minutes", limit, f"recipe {recipe.name}"))
