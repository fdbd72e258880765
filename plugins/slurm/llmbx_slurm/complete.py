"""Settings that depend on the rest of the run: the node check, the size of segments, and how long srun waits."""

from __future__ import annotations

from typing import Any

from llmbx.api import RunSpec, UsageError

from .settings import with_option

AUTO, AUTO_IF_LARGER, NONE = "auto", "auto-if-larger", "none"
"""Values of `segment` besides a number of nodes."""

RECIPE = "recipe "
"""How the origin of a recipe's default starts."""


def complete(spec: RunSpec) -> RunSpec:
    """Check the nodes of runs on several, replace `segment` by a number of nodes, and omit a recipe's `wait` where it
    would cut off a profile.

    Raises `UsageError` for an invalid `segment`, `vboost` or number of nodes per segment.
    """
    own = spec.plugin_settings.get("slurm", {})
    if own.get("vboost", 0) < 0:
        raise UsageError(f"vboost={own['vboost']} ({spec.origins.get('slurm.vboost', '')}): expected 0 or more")
    if "preflight" not in own and spec.gpu_type != "cpu" and spec.nodes > 1:
        own = {**own, "preflight": True}
        origins = {**spec.origins, "slurm.preflight": "the run has several nodes"}
        spec = spec.replace(plugin_settings={**spec.plugin_settings, "slurm": own}, origins=origins)
    if "segment" in own.get("sbatch", {}):
        spec = _with_segment(spec, own["sbatch"]["segment"], spec.origins.get("slurm.sbatch.segment", ""))
    if spec.profile is not None and spec.origins.get("slurm.srun.wait", "").startswith(RECIPE):
        # A rank that writes its profile may end minutes after the first rank.
        spec = _without(spec, "srun", "wait")
    return spec


def segment_size(nodes: int, domain: int) -> int:
    """The largest divisor of the number of nodes that an NVLink domain of `domain` nodes holds.

    As in the launch of Megatron-Bridge f23d790 and NeMo 6f2c6fd (scripts/performance), for domains of 18 nodes.
    """
    return next(size for size in range(min(nodes, domain), 0, -1) if nodes % size == 0)


def _with_segment(spec: RunSpec, value: str, origin: str) -> RunSpec:
    if value not in (AUTO, AUTO_IF_LARGER, NONE):
        if not (value.isascii() and value.isdigit() and int(value)):
            expected = f"a number of nodes, {NONE}, {AUTO} or {AUTO_IF_LARGER}"
            raise UsageError(f"sbatch option segment={value} ({origin}): expected {expected}")
        return spec
    domain = spec.nvlink_domain_nodes
    if domain is None and value != NONE and not origin.startswith(RECIPE):
        raise UsageError(
            f"sbatch option segment={value} ({origin}): {spec.gpu_type} nodes are not connected by NVLink; set a number"
        )
    if domain is None or value == NONE or (value == AUTO_IF_LARGER and spec.nodes <= domain):
        return _without(spec, "sbatch", "segment")
    size = segment_size(spec.nodes, domain)
    reason = f"{origin}: largest divisor of {spec.nodes} nodes up to the {domain} of an NVLink domain"
    return with_option(spec, "segment", str(size), reason)


def _without(spec: RunSpec, table: str, key: str) -> RunSpec:
    own: dict[str, Any] = spec.plugin_settings["slurm"]
    left = {name: value for name, value in own[table].items() if name != key}
    changed = {name: value for name, value in {**own, table: left}.items() if value != {}}
    origins = {place: origin for place, origin in spec.origins.items() if place != f"slurm.{table}.{key}"}
    others = {name: values for name, values in spec.plugin_settings.items() if name != "slurm"}
    new: RunSpec = spec.replace(plugin_settings={**others, **({"slurm": changed} if changed else {})}, origins=origins)
    return new
