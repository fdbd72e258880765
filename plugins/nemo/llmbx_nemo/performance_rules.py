"""Validation rules of Megatron-Bridge's performance recipes: what a configuration that is tuned as a whole refuses.

Sources: the checks of Megatron-Core 0.19 (`transformer_config.py`, `pipeline_parallel_layer_layout.py`) and the recipes
of Megatron-Bridge 0.6.2, as far as the configuration of the row decides whether they apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmbx.api import (
    Finding,
    RunSpec,
)

from .published import is_function, splits
from .suggestions import either, multiples_around
from .upstream import upstream_values

COUNTED = ("model.account_for_embedding_in_pipeline_split", "model.account_for_loss_in_pipeline_split")
"""Fields that make an end of the model count as one layer in the split."""


def findings(spec: RunSpec) -> list[Finding]:
    """Return a finding for everything that the run's performance recipe refuses; none for another recipe.

    For a configuration that upstream does not have, only what all of the recipe's configurations refuse is known.
    """
    if not is_function(spec):
        return []
    row = upstream_values(spec) or {}
    broken = [*_split(spec, row), *_graphs(spec, row), *_offloading(spec, row)]
    if row.get("model.overlap_moe_expert_parallel_comm"):
        broken += _overlap(spec)
    if (spec.parallelism.etp or 1) > 1 and row.get("model.add_bias_linear"):
        problem = f"the experts of {spec.workload} have biases, which need ETP 1, not {spec.parallelism.etp}"
        broken.append(Finding(rule="etp", problem=problem, fix="use --set etp=1"))
    if bool(spec.parallelism.fsdp) != bool(row.get("ddp.use_megatron_fsdp", spec.parallelism.fsdp)):
        problem = f"FSDP cannot be switched in recipe {spec.recipe}"
        broken.append(Finding(rule="fsdp", problem=problem, fix="leave --set fsdp out"))
    return broken


def stages(pp: int, vp: int | None) -> int:
    """Return the number of parts that the layers are split into: PP x VP, or 1 without pipeline parallelism."""
    return pp * (vp or 1) if pp > 1 else 1


def _split(spec: RunSpec, row: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that the layers split into the pipeline stages: evenly, or as the recipe's own table has it.

    A recipe whose table lacks the split keeps that of the row, which fits if the number of stages is the same.
    """
    if not row or spec.parallelism.pp == 1:
        return
    published, layers = splits(spec), spec.model.layers
    pp, vp = spec.parallelism.pp, spec.parallelism.vp or 1
    if not published:
        yield from _even_split(spec, layers, sum(bool(row.get(name)) for name in COUNTED))
        return
    if layers != row["model.num_layers"]:
        problem = f"recipe {spec.recipe} splits {row['model.num_layers']} layers into pipeline stages, not {layers}"
        yield Finding(rule="layers", problem=problem, fix="use --set pp=1 --set vp=1, or leave --set layers out")
    kept = stages(row["model.pipeline_model_parallel_size"], row["model.virtual_pipeline_model_parallel_size"])
    if (pp, vp) not in published and stages(pp, vp) != kept:
        problem = f"recipe {spec.recipe} has no split of {row['model.num_layers']} layers into PP {pp} x VP {vp}"
        fix = either(f"--set pp={pipeline} --set vp={virtual}" for pipeline, virtual in published)
        yield Finding(rule="layers", problem=problem, fix=f"use {fix}")


def _even_split(spec: RunSpec, layers: int, ends: int) -> Iterator[Finding]:
    """Check that the layers, and the ends of the model if the recipe counts them, split into equal stages."""
    parts = stages(spec.parallelism.pp, spec.parallelism.vp)
    if (layers + ends) % parts:
        right = [number - ends for number in multiples_around(layers + ends, parts) if number > ends]
        counted = f" and {ends} for embedding and loss" if ends else ""
        problem = f"recipe {spec.recipe} splits layers evenly, and {layers}{counted} do not split into {parts} stages"
        yield Finding(rule="layers", problem=problem, fix=f"use {either(right, '--set layers=')}")


def _graphs(spec: RunSpec, row: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that CUDA graphs are not switched on where the recipe has none, and what parts of a step exclude."""
    kind = row.get("model.cuda_graph_impl", "none")
    if spec.cuda_graphs and row and kind == "none":
        problem = f"recipe {spec.recipe} has no CUDA graphs for {spec.dtype} on {spec.gpus} x {spec.gpu_type}"
        yield Finding(rule="cg", problem=problem, fix="leave --set cg out")
    if not spec.cuda_graphs or kind in ("none", "full_iteration"):
        return
    for rule, layers, what in (("rl", spec.recompute_layers, "recomputed"), ("ol", spec.offload_layers, "offloaded")):
        if layers:
            problem = f"recipe {spec.recipe} has CUDA graphs of parts of a layer, which exclude {what} layers"
            fix = f"use --set {rule}=0 or --set cg=false"
            yield Finding(rule=rule, problem=f"{problem} ({rule.upper()} {layers})", fix=fix)


def _offloading(spec: RunSpec, row: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that layers are not offloaded where the recipe saves activations in another way."""
    ways = (
        ("model.moe_paged_stash", True, "offloads the activations of its experts"),
        ("model.recompute_granularity", "selective", "recomputes activations"),
    )
    for name, value, what in ways:
        if spec.offload_layers and row.get(name) == value:
            problem = f"recipe {spec.recipe} {what}, which cannot be combined with OL {spec.offload_layers}"
            yield Finding(rule="ol", problem=problem, fix="use --set ol=0")


def _overlap(spec: RunSpec) -> Iterator[Finding]:
    """Check what cannot be combined with expert communication that overlaps computation."""
    p, why = spec.parallelism, f"recipe {spec.recipe} overlaps the communication of its experts"
    if p.pp > 1 and (p.vp or 1) == 1:
        yield Finding(rule="vp", problem=f"{why}, which needs VP above 1 with PP {p.pp}", fix="use --set vp=2, or pp=1")
    if (p.ep or 1) == 1:
        yield Finding(rule="ep", problem=f"{why}, which needs EP above 1", fix="leave --set ep out")
    if spec.recompute_layers:
        problem = f"{why}, which cannot be combined with recomputed layers (RL {spec.recompute_layers})"
        yield Finding(rule="rl", problem=problem, fix="use --set rl=0")
