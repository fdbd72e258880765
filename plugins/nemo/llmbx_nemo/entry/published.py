"""A published configuration: the installed Megatron-Bridge's own recipe, with what the release's launch sets over it.

`spec["published"]` names the recipe's module and the fields (`llmbx_nemo/published/*.toml`). The values of the
specification (parallelism, batches, graphs, memory) go over both, in the order of the release's program.
"""

from __future__ import annotations

import importlib
from typing import Any

from llmbx_nemo.entry import config, execution
from llmbx_nemo.entry.config import ConfigError
from llmbx_nemo.entry.execution import Fields, Host, Spec
from llmbx_nemo.entry.settings import logger, override, profiling, tokenizer


def container(spec: Spec, host: Host) -> Any:
    """The `ConfigContainer` of a published run. Raises `ConfigError` for what the installed version lacks."""
    published = spec["published"]
    recipe = function(published["module"])(mock=True, precision_config=precision(spec))
    if published["buffers"]:
        recipe.comm_overlap.tp_comm_overlap_cfg = buffers(published["buffers"])
    for fields in (published["fields"], specified(spec), run_fields(spec, host)):
        for name, value in fields.items():
            put(recipe, name, value)
    for section, given in override({}, str(execution.setting(spec, "overrides", ""))).items():
        for field, value in (given or {}).items():
            put(recipe, f"{section}.{field}", value)
    return recipe


def function(module: str) -> Any:
    """The recipe's function. Raises `ConfigError` where the installed version has no such recipe."""
    try:
        return importlib.import_module(module).pretrain_config
    except (ImportError, AttributeError):
        raise ConfigError(f"this Megatron-Bridge{version()} has no recipe {module}: use the recipe's image") from None


def version() -> str:
    """` 0.3.1`, or nothing where it is not known."""
    from importlib import metadata

    try:
        return f" {metadata.version('megatron-bridge')}"
    except metadata.PackageNotFoundError:
        return ""


def precision(spec: Spec) -> Any:
    """The precision recipe of the dtype, with the release's changes."""
    names = execution.FP8_RECIPES
    chosen = names[execution.setting(spec, "fp8_recipe", "cs")] if spec["dtype"] == "fp8" else "bf16_mixed"
    return config.mixed_precision({"recipe": chosen, **spec["published"]["precision"]})


def buffers(name: str) -> Any:
    """Tuned buffers of tensor-parallel overlap. Raises `ConfigError` where the version has none of that name."""
    from megatron.bridge.training import comm_overlap

    if not hasattr(comm_overlap, name):
        raise ConfigError(f"this Megatron-Bridge{version()} has no comm_overlap.{name}: use the recipe's image")
    return getattr(comm_overlap, name)


def specified(spec: Spec) -> Fields:
    """The values of the specification, in the names of Megatron-Bridge 0.1."""
    letters, graphs = spec["parallelism"], bool(spec["cuda_graphs"])
    fields: Fields = {
        "train.micro_batch_size": spec["micro_batch_size"],
        "train.global_batch_size": spec["global_batch_size"],
        "dataset.sequence_length": spec["model"]["sequence_length"],
        "model.seq_length": spec["model"]["sequence_length"],
        "model.tensor_model_parallel_size": letters["tp"],
        "model.pipeline_model_parallel_size": letters["pp"],
        "model.virtual_pipeline_model_parallel_size": letters["vp"] if (letters["vp"] or 1) > 1 else None,
        "model.context_parallel_size": letters["cp"],
        "model.expert_model_parallel_size": letters["ep"] or 1,
        "model.expert_tensor_parallel_size": letters["etp"],
        "model.sequence_parallel": letters["tp"] > 1,
        "model.enable_cuda_graph": graphs,
        "model.use_te_rng_tracker": graphs,
        "rng.te_rng_tracker": graphs,
    }
    memory = execution.memory({**spec, "parallelism": {**letters, "fsdp": False}})
    return {**fields, **{f"model.{name}": value for name, value in memory.items()}, **asked(spec)}


def asked(spec: Spec) -> Fields:
    """What the user set: a learning rate or seed that the recipe has not."""
    named = {"lr": ("optimizer.lr",), "seed": ("rng.seed", "dataset.random_seed")}
    return {
        field: spec["settings"][name]
        for name, fields in named.items()
        if spec["origins"].get(f"settings.{name}") == "--set"
        for field in fields
    }


def run_fields(spec: Spec, host: Host) -> Fields:
    """What belongs to llmbx's run and not to the recipe: steps, log lines, tokenizer, checkpoints, profile."""
    wanted = spec["checkpoint"]
    sections: dict[str, Fields] = {
        "train": {"train_iters": spec["steps"], "eval_iters": 0},
        "logger": {name: value for name, value in logger().items() if name != "save_config_filepath"},
        "checkpoint": {"save": "checkpoints" if wanted["save"] else None, "load": wanted["load"]},
        "tokenizer": tokenizer(spec),
    }
    if wanted["save"]:
        sections["checkpoint"]["save_interval"] = spec["steps"]
    fields = {f"{section}.{name}": value for section, given in sections.items() for name, value in given.items()}
    profile = profiling(spec, host)
    if profile:
        from megatron.bridge.training.config import ProfilingConfig

        fields["profiling"] = ProfilingConfig(**profile)
    return fields


def put(recipe: Any, name: str, value: Any) -> None:
    """Set one field. Raises `ConfigError` for one that the installed version lacks."""
    section, _, field = name.partition(".")
    target = getattr(recipe, section, None) if field else recipe
    if target is None or not hasattr(target, field or section):
        raise ConfigError(f"this Megatron-Bridge{version()} has no {name}: use the recipe's image")
    setattr(target, field or section, value)
