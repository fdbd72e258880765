"""Resolve where a run is executed: GPUs per node, launcher, runtime, image, time limit."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..catalog import workloads
from ..catalog.hardware import GpuType
from ..errors import PluginError, UsageError
from ..model import ImageSource, Recipe, Workload
from ..model.launch import AUTO, LOCAL
from .profiler_choice import profilers_of
from .target import for_this_machine

if TYPE_CHECKING:
    from ..plugins.manager import Plugins
    from .layers import Layers


def place(
    layers: Layers,
    workload: Workload,
    gpus: Mapping[str, GpuType],
    target: Mapping[str, Any],
    recipe: Recipe,
    plugins: Plugins,
) -> dict[str, Any]:
    """Resolve GPUs per node, launcher, runtime, image and time limit.

    Raises `UsageError` for an invalid value.
    """
    gpu = GpuType.named(target["gpu_type"], gpus)
    per_node = layers.find("gpus_per_node")
    if per_node is None:
        per_node = layers.note("gpus_per_node", *_gpus_per_node(layers, target, gpu, gpus))
    if per_node < 1:
        raise UsageError(f"GPUs per node: expected an integer >= 1, got {per_node}")
    per_node = min(per_node, target["gpus"])
    image: str | None = layers.request.image
    source = ImageSource(reference=image, source="--image") if image else recipe.image
    if source:
        layers.note("image", source.reference, "--image" if image else f"recipe {recipe.name}")
    launcher = layers.find("launcher")
    if launcher is None:
        nodes, on_gpus = -(-target["gpus"] // per_node), target["gpu_type"] != "cpu"
        launcher = layers.note("launcher", *choose_launcher(plugins, nodes, on_gpus, layers.environ))
    own_limit = _time_limit(plugins, launcher, layers)
    return {
        "gpus_per_node": per_node,
        "nvlink_domain_nodes": gpu.nvlink_domain_nodes,
        "launcher": launcher,
        "runtime": layers.find("runtime") or layers.note("runtime", "auto", "default"),
        "image": source,
        "walltime_minutes": _walltime(layers, workload, recipe, target, own_limit, plugins),
    }


def _gpus_per_node(
    layers: Layers,
    target: Mapping[str, Any],
    gpu: GpuType,
    gpus: Mapping[str, GpuType],
) -> tuple[int, str]:
    """The GPUs of this machine for a run that fits it, else those of a node of this type, with the origin.

    Of a type whose nodes differ in size, other nodes have as many as this machine.
    """
    detected = GpuType.detect(gpus)
    own = detected is not None and detected[0] == gpu.name
    if detected and own and (not gpu.gpus_per_node or for_this_machine(layers, detected[1])):
        return detected[1], "this machine's GPUs"
    return gpu.gpus_per_node or target["gpus"], f"{target['gpu_type']} nodes"


def require_tools(layers: Layers, plugins: Plugins) -> None:
    """Raise `UsageError` for a launcher or runtime that no plugin has: a wrong name is the first thing to report."""
    for field, choose in (("launcher", plugins.launcher), ("runtime", plugins.runtime)):
        name = layers.find(field)
        if name in (None, AUTO):
            continue
        try:
            choose(name)
        except UsageError as error:
            raise UsageError(f"{layers.origins[field]}: {error}") from None


def choose_launcher(plugins: Plugins, nodes: int, on_gpus: bool, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the default launcher of a run, and why: the first launcher that claims it, else `local`."""
    for launcher in plugins.launchers().values():
        try:
            reason = launcher.claims(nodes, on_gpus, environ)
        except PluginError as error:
            print(f"llmbx: warning: {error}; the launcher {launcher.name} is left out", file=sys.stderr)
            continue
        if reason:
            return launcher.name, reason
    return LOCAL, "default for one node" if nodes == 1 else "no installed launcher starts runs of several nodes"


def _time_limit(plugins: Plugins, launcher: str, layers: Layers) -> tuple[int | None, str] | None:
    """Return the time limit from the settings of the launcher's plugin, with its origin; None if there is none."""
    if launcher not in plugins.launchers():
        return None
    settings = layers.plugin_settings.get(plugins.settings_of(launcher), {})
    return plugins.launcher(launcher).time_limit(settings, layers.origins)


def _walltime(
    layers: Layers, workload: Workload, recipe: Recipe, target: Mapping[str, Any], own: tuple[int | None, str] | None,
    plugins: Plugins,
) -> int | None:  # fmt: skip
    requested: int | None = layers.request.walltime_minutes
    if requested is not None:
        return int(layers.note("walltime_minutes", requested, "--walltime"))
    if own is not None:  # in the job's script the launcher's own option takes precedence
        return layers.note("walltime_minutes", *own)  # type: ignore[no-any-return]
    limit = _usual_walltime(layers, workload, recipe, target)
    for name, facts in profilers_of(layers, plugins, None).items():
        shorter = facts.walltime_minutes
        if shorter is not None and (limit is None or limit > shorter):
            limit = layers.note("walltime_minutes", shorter, f"default with {name}")
    return limit


def _usual_walltime(layers: Layers, workload: Workload, recipe: Recipe, target: Mapping[str, Any]) -> int | None:
    if layers.profile:
        limits = layers.profile.cluster.walltime_minutes
        for key in (workload.name, *workload.aliases, "default"):
            if key in limits:
                return int(layers.note("walltime_minutes", limits[key], layers.profile.origin))
    limit = workloads.walltime_minutes(recipe, target["size"], target["layout_of"] or target["gpu_type"])
    return None if limit is None else int(layers.note("walltime_minutes", limit, f"recipe {recipe.name}"))
