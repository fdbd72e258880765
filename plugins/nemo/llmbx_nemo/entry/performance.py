"""Build a configuration with a function of Megatron-Bridge's performance recipes (`megatron.bridge.perf_recipes`).

Such a function returns the complete configuration for one model, dtype, GPU type and number of GPUs. What is changed
then are the values of the specification that differ from it, what upstream's program changes (`scripts/performance` of
Megatron-Bridge 0.6), and what a run of llmbx needs.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llmbx_nemo.entry import config, execution, stubs
from llmbx_nemo.entry.config import ConfigError
from llmbx_nemo.entry.execution import Fields, Host, Spec
from llmbx_nemo.entry.published import run_fields, set_field, user_settings, version
from llmbx_nemo.entry.settings import override, tokenizer

SHAPE = {
    "layers": "num_layers",
    "hidden_size": "hidden_size",
    "ffn_hidden_size": "ffn_hidden_size",
    "heads": "num_attention_heads",
    "query_groups": "num_query_groups",
    "experts": "num_moe_experts",
    "experts_per_token": "moe_router_topk",
    "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "shared_ffn_hidden_size": "moe_shared_expert_intermediate_size",
    "sequence_length": "seq_length",
    "vocab_size": "vocab_size",
}
"""Megatron's field for each size of the model that can be changed."""


RANKS = "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"
"""The variable that follows from the expert parallelism."""

GC_INTERVAL = 100
"""Steps between garbage collections, which the launch of Megatron-Bridge 0.5 sets (`perf_plugins.py`)."""

PIPELINE = ("model.num_layers", "model.pipeline_model_parallel_size", "model.virtual_pipeline_model_parallel_size")
"""Fields whose change needs another split into pipeline stages."""


def container(spec: Spec, host: Host) -> Any:
    """Return the `ConfigContainer` of a run. Raises `ConfigError` if the installed version cannot build it."""
    name, arguments = spec["published"]["function"], spec["published"].get("arguments", {})
    if arguments:
        add_scripts()
    recipe = function(name)(**arguments)
    as_upstream(recipe, spec["dtype"])
    if arguments:
        recipe.train.manual_gc, recipe.train.manual_gc_interval = True, GC_INTERVAL
    changed = changes(recipe, spec)
    for field, value in {**changed, **user_settings(spec), **own_fields(recipe, spec, host)}.items():
        set_field(recipe, field, value)
    experts = "model.expert_model_parallel_size" in changed
    if any(name in changed for name in PIPELINE) or (experts and spec.get("scaled_from")):
        split(recipe.model, spec["published"]["layout"])  # upstream's launch names all degrees of a scaled layout
    if experts and RANKS in recipe.env_vars:
        recipe.env_vars[RANKS] = min(spec["parallelism"]["ep"] or 1, int(recipe.env_vars["NVLINK_DOMAIN_SIZE"]))
    if spec.get("scaled_from"):
        as_scaled(recipe, spec)
    for section, overrides in override({}, str(execution.setting(spec, "overrides", ""))).items():
        for field, value in (overrides or {}).items():
            set_field(recipe, f"{section}.{field}", value)
    return recipe


def add_scripts() -> None:
    """Make the programs of `scripts/performance` importable, where the functions are up to Megatron-Bridge 0.5.

    Images have a checkout; another one is mounted over it.
    """
    import megatron.bridge

    scripts = Path(megatron.bridge.__file__).parents[3] / "scripts" / "performance"
    if str(scripts) not in sys.path:
        sys.path.insert(0, str(scripts))


def function(name: str) -> Callable[..., Any]:
    """Return the function `module:name`. Raises `ConfigError` if the installed version does not have it."""
    module, _, attribute = name.partition(":")
    try:
        with stubs.absent_packages():
            return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]
    except (ImportError, AttributeError):
        raise ConfigError(
            f"this Megatron-Bridge{version()} has no recipe {attribute} ({module}): use the recipe's image"
        ) from None


def as_upstream(recipe: Any, dtype: str) -> None:
    """Change what upstream's program changes: mock data instead of the recipe's, the state of Adam with BF16, and the
    check of the loss, which a CUDA graph of the whole iteration does not allow.
    """
    from megatron.bridge.training.config import MockGPTDatasetConfig

    loader = ("num_workers", "pin_memory", "persistent_workers")
    recipe.dataset = MockGPTDatasetConfig(
        seq_length=recipe.model.seq_length,
        random_seed=1234,
        reset_attention_mask=False,
        reset_position_ids=False,
        eod_mask_loss=False,
        num_dataset_builder_threads=1,
        split="99990,8,2",
        data_sharding=True,
        dataloader_type="single",
        **{name: getattr(recipe.dataset, name) for name in loader},
    )
    if dtype == "bf16" and recipe.optimizer.optimizer == "adam":
        recipe.optimizer.use_precision_aware_optimizer = True
    graphs = (getattr(recipe.model, "cuda_graph_impl", None), *(getattr(recipe.model, "cuda_graph_scope", None) or ()))
    if "full_iteration" in graphs:
        recipe.rerun_state_machine.check_for_nan_in_loss = False


def as_scaled(recipe: Any, spec: Spec) -> None:
    """Change what upstream's program changes when it scales a recipe to another number of GPUs, beside the batch.

    With interleaved stages the parameters are gathered during the optimizer's step, but for MXFP8 and NVFP4.
    """
    parallelism = spec["parallelism"]
    interleaved = parallelism["pp"] > 1 and (parallelism["vp"] or 1) > 1 and parallelism["dp"] > 1
    if not interleaved or spec["dtype"] in ("mxfp8", "nvfp4") or recipe.optimizer.optimizer == "dist_muon":
        return
    recipe.optimizer.overlap_param_gather_with_optimizer_step = True
    if getattr(recipe, "comm_overlap", None) is not None:
        recipe.comm_overlap.overlap_param_gather_with_optimizer_step = True


def changes(recipe: Any, spec: Spec) -> Fields:
    """Return the fields in which the specification differs from the recipe.

    Raises `ConfigError` for a change that a model of this kind does not support.
    """
    model, parallelism = recipe.model, spec["parallelism"]
    vp = parallelism["vp"] if (parallelism["vp"] or 1) > 1 else None
    specified = {
        "train.micro_batch_size": spec["micro_batch_size"],
        "train.global_batch_size": spec["global_batch_size"],
        "model.tensor_model_parallel_size": parallelism["tp"],
        "model.pipeline_model_parallel_size": parallelism["pp"],
        "model.virtual_pipeline_model_parallel_size": vp,
        "model.context_parallel_size": parallelism["cp"],
        "model.expert_model_parallel_size": parallelism["ep"] or 1,
        "model.expert_tensor_parallel_size": parallelism["etp"],
        "ddp.use_megatron_fsdp": bool(parallelism["fsdp"]),
        "model.cpu_offloading_num_layers": spec["offload_layers"],
        "model.recompute_num_layers": spec["recompute_layers"] or None,
    }
    specified |= {f"model.{field}": spec["model"][key] for key, field in SHAPE.items() if spec["model"].get(key)}
    changed = {name: value for name, value in specified.items() if get_field(recipe, name) != value}
    if not (spec["offload_layers"] or getattr(model, "cpu_offloading", False)):
        changed.pop("model.cpu_offloading_num_layers", None)  # a number without the switch
    if parallelism["etp"] is None:
        changed.pop("model.expert_tensor_parallel_size", None)
    for name in ("num_layers", "vocab_size"):  # a recipe may leave them to the pattern of layers and to the tokenizer
        if getattr(model, name) is None:
            changed.pop(f"model.{name}", None)
    return {**changed, **consequences(model, spec, changed), **graphs(model, spec)}


def consequences(model: Any, spec: Spec, changed: Fields) -> Fields:
    """Return the fields that follow from changed ones, as upstream's program sets them for its own options."""
    fields: Fields = {}
    if "model.tensor_model_parallel_size" in changed:
        fields["model.sequence_parallel"] = spec["parallelism"]["tp"] > 1
    if "model.cpu_offloading_num_layers" in changed:
        fields |= {"model.cpu_offloading": spec["offload_layers"] > 0, "model.cpu_offloading_weights": False}
    if "model.recompute_num_layers" in changed:
        again = spec["recompute_layers"] > 0
        fields |= {
            "model.recompute_granularity": "full" if again else None,
            "model.recompute_method": "block" if again else None,
        }
    if "model.seq_length" in changed:
        fields["dataset.seq_length"] = fields["dataset.sequence_length"] = spec["model"]["sequence_length"]
    if "ddp.use_megatron_fsdp" in changed:
        raise ConfigError("FSDP cannot be switched on or off in a performance recipe: leave --set fsdp out")
    if "model.num_layers" in changed:
        if getattr(model, "hybrid_layer_pattern", None):
            raise ConfigError("a hybrid model has its layers by a pattern: leave --set layers out")
        if isinstance(getattr(model, "moe_layer_freq", None), list):
            dense = model.moe_layer_freq.count(0)
            fields["model.moe_layer_freq"] = [0] * dense + [1] * (spec["model"]["layers"] - dense)
    return fields


def split(model: Any, layout: str | None) -> None:
    """Split the changed model among its pipeline stages: with the recipe's function, else by the framework itself.

    Raises `ConfigError` if the recipe has no layout for these stages.
    """
    if layout is None:
        model.pipeline_model_parallel_layout = None
        return
    chosen = function(layout)
    try:
        if "pp_size" in inspect.signature(chosen).parameters:  # Kimi's returns the layout, DeepSeek's sets it
            vp = model.virtual_pipeline_model_parallel_size
            model.pipeline_model_parallel_layout = chosen(model.pipeline_model_parallel_size, vp)
        else:
            chosen(model)
    except ValueError as error:
        raise ConfigError(f"no pipeline layout for these stages: {error}") from None


def graphs(model: Any, spec: Spec) -> Fields:
    """Return the fields that switch the recipe's CUDA graphs off, if the user did.

    Upstream's program disables the random numbers of CUDA graphs if there are no graphs.

    Raises `ConfigError` if they are to be switched on where the recipe has none.
    """
    used = getattr(model, "cuda_graph_impl", "none") != "none"
    if spec["cuda_graphs"] and not used:
        raise ConfigError("this recipe has no CUDA graphs: leave --set cg out")
    if spec["cuda_graphs"]:
        return {}
    off: Fields = {"model.use_te_rng_tracker": False, "rng.te_rng_tracker": False}
    return {**off, "model.cuda_graph_impl": "none", "model.cuda_graph_scope": []} if used else off


def own_fields(recipe: Any, spec: Spec, host: Host) -> Fields:
    """Return what a run needs: steps, log lines, checkpoints, profile, and a tokenizer that needs no download.

    A null tokenizer of the recipe stays as it is: the vocabulary is that of the model, not of the tokenizer.
    """
    fields = run_fields(spec, host)
    hub = execution.setting(spec, "tokenizer", "null") == "hub"
    if hub or recipe.tokenizer.tokenizer_type != "NullTokenizer":
        kept = getattr(recipe.tokenizer, "use_tokenizer_vocab_size", False)
        chosen = config.assemble(type(recipe.tokenizer), tokenizer(spec), "tokenizer")
        chosen.use_tokenizer_vocab_size = kept
        fields["tokenizer"] = chosen
    return {name: value for name, value in fields.items() if not name.startswith("tokenizer.")}


def get_field(recipe: Any, name: str) -> Any:
    """Return the value of `section.field`, or None if there is none."""
    section, _, field = name.partition(".")
    return getattr(getattr(recipe, section, None), field, None)
