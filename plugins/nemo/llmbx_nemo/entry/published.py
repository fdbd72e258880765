"""Build a published configuration: the installed Megatron-Bridge's recipe with the fields that the release sets.

`spec["published"]` names the recipe's module and the fields (`llmbx_nemo/published/*.toml`). The values of the
specification (parallelism, batches, graphs, memory) override both, in the order of the release's program.
"""

from __future__ import annotations

import importlib
from typing import Any

from llmbx_nemo.entry import config, execution
from llmbx_nemo.entry.config import ConfigError
from llmbx_nemo.entry.execution import Fields, Host, Spec
from llmbx_nemo.entry.settings import logger, override, profiling, tokenizer

SETTINGS = {
    "lr": ("optimizer.lr",),
    "seed": ("rng.seed", "dataset.random_seed"),
    "check_for_nan": ("ddp.check_for_nan_in_grad", "rerun_state_machine.check_for_nan_in_loss"),
    "distributed_timeout_minutes": ("dist.distributed_timeout_minutes",),
    "tp_comm_overlap": ("comm_overlap.tp_comm_overlap",),
}
"""The fields of each setting, for a setting that the user set."""


def container(spec: Spec, host: Host) -> Any:
    """Return the `ConfigContainer` of a published run.

    Raises `ConfigError` if the installed version lacks the recipe, a field or a buffer.
    """
    published = spec["published"]
    recipe = function(published["module"])(mock=True, precision_config=precision(spec))
    if published["buffers"]:
        recipe.comm_overlap.tp_comm_overlap_cfg = buffers(published["buffers"])
    for fields in (published["fields"], specified(spec), run_fields(spec, host)):
        for name, value in fields.items():
            set_field(recipe, name, value)
    for section, overrides in override({}, str(execution.setting(spec, "overrides", ""))).items():
        for field, value in (overrides or {}).items():
            set_field(recipe, f"{section}.{field}", value)
    return recipe


def function(module: str) -> Any:
    """Return the recipe's function. Raises `ConfigError` if the installed version does not have the recipe."""
    try:
        return importlib.import_module(module).pretrain_config
    except (ImportError, AttributeError):
        raise ConfigError(f"this Megatron-Bridge{version()} has no recipe {module}: use the recipe's image") from None


def version() -> str:
    """Return the installed version with a leading space (` 0.3.1`), or an empty string if it is unknown."""
    from importlib import metadata

    try:
        return f" {metadata.version('megatron-bridge')}"
    except metadata.PackageNotFoundError:
        return ""


def precision(spec: Spec) -> Any:
    """Return the precision recipe of the dtype, with the release's changes."""
    names = execution.FP8_RECIPES
    chosen = names[execution.setting(spec, "fp8_recipe", "cs")] if spec["dtype"] == "fp8" else "bf16_mixed"
    return config.mixed_precision({"recipe": chosen, **spec["published"]["precision"]})


def buffers(name: str) -> Any:
    """Return tuned buffers of tensor-parallel overlap. Raises `ConfigError` if the version has none of that name."""
    from megatron.bridge.training import comm_overlap

    if not hasattr(comm_overlap, name):
        raise ConfigError(f"this Megatron-Bridge{version()} has no comm_overlap.{name}: use the recipe's image")
    return getattr(comm_overlap, name)


def specified(spec: Spec) -> Fields:
    """Return the values of the specification, with the field names of Megatron-Bridge 0.1."""
    parallelism, graphs = spec["parallelism"], bool(spec["cuda_graphs"])
    fields: Fields = {
        "train.micro_batch_size": spec["micro_batch_size"],
        "train.global_batch_size": spec["global_batch_size"],
        "dataset.sequence_length": spec["model"]["sequence_length"],
        "model.seq_length": spec["model"]["sequence_length"],
        "model.tensor_model_parallel_size": parallelism["tp"],
        "model.pipeline_model_parallel_size": parallelism["pp"],
        "model.virtual_pipeline_model_parallel_size": parallelism["vp"] if (parallelism["vp"] or 1) > 1 else None,
        "model.context_parallel_size": parallelism["cp"],
        "model.expert_model_parallel_size": parallelism["ep"] or 1,
        "model.expert_tensor_parallel_size": parallelism["etp"],
        "model.sequence_parallel": parallelism["tp"] > 1,
        "model.enable_cuda_graph": graphs,
        "model.use_te_rng_tracker": graphs,
        "rng.te_rng_tracker": graphs,
    }
    memory = execution.memory({**spec, "parallelism": {**parallelism, "fsdp": False}})
    return {**fields, **{f"model.{name}": value for name, value in memory.items()}, **user_settings(spec)}


def user_settings(spec: Spec) -> Fields:
    """Return the fields of settings that the user set; without one, the recipe's value is used."""
    return {
        field: spec["settings"][name]
        for name, fields in SETTINGS.items()
        if not spec["origins"].get(f"settings.{name}", "default").startswith(("recipe ", "default"))
        for field in fields
    }


def run_fields(spec: Spec, host: Host) -> Fields:
    """Return the fields that the recipe does not define: steps, log lines, tokenizer, checkpoints, profile."""
    checkpoint = spec["checkpoint"]
    sections: dict[str, Fields] = {
        "train": {"train_iters": spec["steps"], "eval_iters": 0},
        "logger": {name: value for name, value in logger().items() if name != "save_config_filepath"},
        "checkpoint": {"save": "checkpoints" if checkpoint["save"] else None, "load": checkpoint["load"]},
        "tokenizer": tokenizer(spec),
    }
    if checkpoint["save"]:
        sections["checkpoint"]["save_interval"] = spec["steps"]
    fields = {f"{section}.{name}": value for section, values in sections.items() for name, value in values.items()}
    profile = profiling(spec, host)
    if profile:
        from megatron.bridge.training.config import ProfilingConfig

        fields["profiling"] = ProfilingConfig(**profile)
    return fields


def set_field(recipe: Any, name: str, value: Any) -> None:
    """Set one field. Raises `ConfigError` if the installed version does not have it."""
    section, _, field = name.partition(".")
    target = getattr(recipe, section, None) if field else recipe
    if target is None or not hasattr(target, field or section):
        raise ConfigError(f"this Megatron-Bridge{version()} has no {name}: use the recipe's image")
    setattr(target, field or section, value)
