"""Build a published configuration on NeMo 2: the installed NeMo's recipe with the fields that the release sets.

`spec["published"]` names the recipe's module and the fields (`llmbx_nemo/published/*-nemo2.toml`). The values of the
specification override both, in the order of the release's programs. A field's name is its path in the recipe, which is
a Fiddle configuration: `trainer.strategy.context_parallel_size`. `callbacks.NAME.field` is a field of the callback with
the class NAME.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from typing import Any

from llmbx_nemo.entry import nemo2_cpu, shapes
from llmbx_nemo.entry.config import ConfigError
from llmbx_nemo.entry.execution import Fields, Host, Spec, setting
from llmbx_nemo.entry.settings import profiled_ranks

OVERLAP = "callbacks.MegatronCommOverlapCallback"

FP8 = {
    "cs": "bf16_with_fp8_current_scaling_mixed",
    "mx": "bf16_with_mxfp8_mixed",
    "delayed": "bf16_with_fp8_mixed",
}
"""Precision recipe by `fp8_recipe`, in `nemo.collections.llm.recipes.precision.mixed_precision`."""

SETTING_FIELDS = {
    "lr": ("optim.config.lr",),
    "seed": ("data.seed",),
    "tp_comm_overlap": (f"{OVERLAP}.tp_comm_overlap",),
    "check_for_nan": ("trainer.strategy.ddp.check_for_nan_in_grad",),
}
"""Fields of the settings that replace the recipe's values only if the user sets them."""

OTHER_SETTINGS = {"fp8_recipe", "moe_token_drop", "numa_binding", "overrides", "tokenizer"}
"""Settings that are applied in another way."""


def recipe(spec: Spec, host: Host) -> Any:
    """Return the recipe of a run, a `nemo_run.Partial`.

    Raises `ConfigError` if the installed NeMo lacks the recipe, a field or a buffer, or does not support a setting.
    """
    published = spec["published"]
    built = function(published["module"])(performance_mode=True)
    replace_model(built, published["model"])
    built.log.ckpt = built.log.tensorboard = None
    built.trainer.logger = False
    built.data.tokenizer = tokenizer(spec)
    precision(built, spec)
    if published["buffers"]:
        set_field(built, f"{OVERLAP}.tp_comm_overlap_cfg", buffers(published["buffers"]))
    for fields in (published["fields"], specified(spec), run_fields(spec), user_settings(spec)):
        for name, value in fields.items():
            set_field(built, name, value)
    if spec["mini"]:
        mini(built, spec, host)
    callbacks(built, spec, host)
    for word in str(setting(spec, "overrides", "")).split():
        name, _, text = word.partition("=")
        set_field(built, name, value_of(text))
    return built


def function(module: str) -> Any:
    """Return the recipe's function. Raises `ConfigError` if the installed version does not have the recipe."""
    try:
        return importlib.import_module(module).pretrain_recipe
    except (ImportError, AttributeError):
        raise ConfigError(f"this NeMo{version()} has no recipe {module}: use the recipe's image") from None


def version() -> str:
    """Return the installed version with a leading space (` 2.3.1`), or an empty string if it is unknown."""
    from importlib import metadata

    try:
        return f" {metadata.version('nemo-toolkit')}"
    except metadata.PackageNotFoundError:
        return ""


def replace_model(found: Any, name: str | None) -> None:
    """Replace the model class by the class `name`, with the same configuration."""
    if name is None:
        return
    import nemo_run

    module, _, attribute = name.rpartition(".")
    found.model = nemo_run.Config(getattr(importlib.import_module(module), attribute), config=found.model.config)


def tokenizer(spec: Spec) -> Any:
    """Return a null tokenizer with the model's vocabulary size, or the model's own tokenizer from the hub.

    NeMo's null tokenizer adds an end-of-document token to the size that is passed to it.
    """
    import nemo_run

    if setting(spec, "tokenizer", "null") == "hub":
        from nemo.collections.common.tokenizers.huggingface.auto_tokenizer import AutoTokenizer

        return nemo_run.Config(AutoTokenizer, pretrained_model_name=spec["gated_tokenizer"], use_fast=True)
    from nemo.collections.nlp.modules.common.tokenizer_utils import get_nmt_tokenizer

    size = spec["model"]["vocab_size"] - 1
    return nemo_run.Config(get_nmt_tokenizer, library="null", model_name="NullTokenizer", vocab_size=size)


def precision(found: Any, spec: Spec) -> None:
    """Replace the precision plugin of the recipe for FP8 and FP32.

    With FP8, gradients are reduced in BF16, as in the release's programs. FP32 is for minis; the recipes do not use it.
    """
    if spec["dtype"] == "fp32":
        import nemo_run
        from nemo import lightning as nl

        found.trainer.plugins = nemo_run.Config(nl.MegatronMixedPrecision, precision="32")
    if spec["dtype"] != "fp8":
        return
    from nemo.collections.llm.recipes.precision import mixed_precision

    name = FP8[setting(spec, "fp8_recipe", "delayed")]
    if not hasattr(mixed_precision, name):
        raise ConfigError(f"this NeMo{version()} has no FP8 recipe {name}: use --set fp8_recipe=delayed")
    found.trainer.plugins = getattr(mixed_precision, name)()
    set_field(found, "trainer.plugins.grad_reduce_in_fp32", False)
    if setting(spec, "fp8_recipe", "delayed") == "cs":
        set_field(found, "trainer.plugins.first_last_layers_bf16", False)


def buffers(name: str) -> Any:
    """Return tuned buffers of tensor-parallel overlap. Raises `ConfigError` if the version has none of that name."""
    from nemo.collections.llm.recipes.tp_overlap_configs import userbuffers

    if not hasattr(userbuffers, name):
        raise ConfigError(f"this NeMo{version()} has no {name}: use the recipe's image")
    return getattr(userbuffers, name)


def specified(spec: Spec) -> Fields:
    """Return the values of the specification. Raises `ConfigError` for FSDP, which no NeMo 2 recipe supports."""
    parallelism, strategy = spec["parallelism"], "trainer.strategy"
    if parallelism["fsdp"]:
        raise ConfigError("the NeMo 2 recipes do not support FSDP: use --set fsdp=false")
    interleaved = parallelism["dp"] > 1 and parallelism["pp"] > 1 and (parallelism["vp"] or 1) > 1
    checkpoints = spec["checkpoint"]["save"] or spec["checkpoint"]["load"]
    fields: Fields = {
        "model.config.num_layers": spec["model"]["layers"],
        "model.config.hidden_size": spec["model"]["hidden_size"],
        "model.config.seq_length": spec["model"]["sequence_length"],
        "model.config.enable_cuda_graph": bool(spec["cuda_graphs"]),
        "data.seq_length": spec["model"]["sequence_length"],
        "data.micro_batch_size": spec["micro_batch_size"],
        "data.global_batch_size": spec["global_batch_size"],
        "trainer.num_nodes": -(-spec["gpus"] // spec["gpus_per_node"]),
        "trainer.devices": min(spec["gpus"], spec["gpus_per_node"]),
        f"{strategy}.tensor_model_parallel_size": parallelism["tp"],
        f"{strategy}.pipeline_model_parallel_size": parallelism["pp"],
        f"{strategy}.virtual_pipeline_model_parallel_size": parallelism["vp"] if (parallelism["vp"] or 1) > 1 else None,
        f"{strategy}.context_parallel_size": parallelism["cp"],
        f"{strategy}.expert_model_parallel_size": parallelism["ep"] or 1,
        f"{strategy}.expert_tensor_parallel_size": parallelism["etp"],
        f"{strategy}.sequence_parallel": parallelism["tp"] > 1,
        f"{strategy}.use_te_rng_tracker": bool(spec["cuda_graphs"]),
        f"{OVERLAP}.overlap_param_gather_with_optimizer_step": interleaved and not checkpoints,
    }
    return {**fields, **memory(spec)}


def mini(found: Any, spec: Spec, host: Host) -> None:
    """Set the shape and learning rate of a mini, and the fields that differ on a CPU.

    Model fields that the installed version does not have are skipped.
    """
    shape = shapes.decoder(spec["model"])
    if spec["model"].get("experts"):
        shape |= shapes.experts(spec["model"])
    rate = float(setting(spec, "lr", 1e-3))
    fields = {
        **{f"model.config.{name}": value for name, value in shape.items()},
        "model.config.vocab_size": spec["model"]["vocab_size"],
        "optim.config.lr": rate,
        "optim.lr_scheduler.min_lr": rate / 10,
        "optim.lr_scheduler.warmup_steps": min(5, spec["steps"] - 1),
    }
    if not host.cuda:
        fields |= nemo2_cpu.fields(spec)
        remove_callback(found, nemo2_cpu.OVERLAP)
    names = {field.name for field in dataclasses.fields(found.model.config.__fn_or_cls__)}
    for name, value in fields.items():
        section, _, field = name.rpartition(".")
        if section != "model.config" or field in names:
            set_field(found, name, value)


def memory(spec: Spec) -> Fields:
    """Return the fields for recomputed layers (RL) and layers with offloaded activations (OL)."""
    fields: Fields = {}
    if spec["recompute_layers"]:
        fields |= {"recompute_granularity": "full", "recompute_method": "block"}
        fields["recompute_num_layers"] = spec["recompute_layers"]
    if spec["offload_layers"]:
        fields |= {"cpu_offloading": True, "cpu_offloading_weights": False}
        fields["cpu_offloading_num_layers"] = spec["offload_layers"]
    return {f"model.config.{name}": value for name, value in fields.items()}


def run_fields(spec: Spec) -> Fields:
    """Return the fields that the recipe does not define: steps, samples, log lines, checkpoints.

    A run that resumes trains exactly one more step. NeMo saves at the end of the only epoch, which is the end of the
    run.
    """
    checkpoint = spec["checkpoint"]
    steps = 1 if checkpoint["load"] else spec["steps"]
    fields: Fields = {
        "trainer.max_steps": steps,
        "trainer.val_check_interval": steps,
        "trainer.log_every_n_steps": 1,
        "trainer.enable_checkpointing": bool(checkpoint["save"]),
        "data.num_train_samples": steps * spec["global_batch_size"],
    }
    if checkpoint["load"]:
        fields["resume"] = resume(checkpoint["load"])
    return fields


def resume(folder: str) -> Any:
    """Return a configuration that loads the weights and optimizer state of exactly this checkpoint."""
    import nemo_run
    from nemo import lightning as nl

    restore = nemo_run.Config(
        nl.RestoreConfig, path=folder, load_model_state=True, load_optim_state=True, load_artifacts=False
    )
    return nemo_run.Config(
        nl.AutoResume, resume_if_exists=True, resume_ignore_no_checkpoint=False, restore_config=restore
    )


def user_settings(spec: Spec) -> Fields:
    """Return the fields of settings that the user set. Raises `ConfigError` for a setting without a field."""
    explicit = {name for name in spec["settings"] if spec["origins"].get(f"settings.{name}", "").startswith("--")}
    unknown = sorted(explicit - SETTING_FIELDS.keys() - OTHER_SETTINGS)
    if unknown:
        raise ConfigError(f"the NeMo 2 recipes do not support --set {', '.join(unknown)}: leave it out")
    used = sorted(explicit & SETTING_FIELDS.keys())
    return {field: spec["settings"][name] for name in used for field in SETTING_FIELDS[name]}


def callbacks(found: Any, spec: Spec, host: Host) -> None:
    """Add NeMo's callbacks for FLOPs and nsys, and remove the token drop callback if the user disabled it."""
    import nemo_run
    from nemo.lightning.pytorch.callbacks import NsysCallback
    from nemo.lightning.pytorch.callbacks.flops_callback import FLOPsMeasurementCallback

    listed = found.trainer.callbacks
    if spec["origins"].get("settings.moe_token_drop", "").startswith("--") and not spec["settings"]["moe_token_drop"]:
        remove_callback(found, "MegatronTokenDropCallback")
    if name := spec["published"]["flops_callback"]:
        listed.append(
            nemo_run.Config(
                FLOPsMeasurementCallback, model_config=found.model.config, data_config=found.data, model_name=name
            )
        )
    if (profile := spec["profile"]) and profile["tool"] == "nsys":
        ranks = profiled_ranks(spec, host)
        listed.append(nemo_run.Config(NsysCallback, start_step=profile["start"], end_step=profile["stop"], ranks=ranks))


def remove_callback(found: Any, name: str) -> None:
    """Remove the callbacks of the class `name` from the recipe."""
    listed = found.trainer.callbacks
    listed[:] = [item for item in listed if kind(item) != name]


def kind(item: Any) -> str:
    """Return the name of the class that a Fiddle configuration creates."""
    return str(item.__fn_or_cls__.__name__)


def set_field(found: Any, name: str, value: Any) -> None:
    """Set one field by its path. Raises `ConfigError` if the installed version does not have it."""
    *path, field = name.split(".")
    target = found
    try:
        if path[:1] == ["callbacks"]:
            target, path = _callback(found, path[1]), path[2:]
        for part in path:
            target = getattr(target, part)
        setattr(target, field, value)
    except (AttributeError, IndexError, StopIteration, TypeError):
        raise ConfigError(f"this NeMo{version()} has no {name}: use the recipe's image") from None


def _callback(found: Any, name: str) -> Any:
    return next(item for item in found.trainer.callbacks if kind(item) == name)


def value_of(text: str) -> Any:
    """Return a value of the user's overrides, parsed as JSON if it is valid JSON, else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
