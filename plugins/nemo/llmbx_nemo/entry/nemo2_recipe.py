"""A published configuration on NeMo 2: the installed NeMo's own recipe, with what the release's program sets over it.

`spec["published"]` names the recipe's module and the fields (`llmbx_nemo/published/*-nemo2.toml`). The values of the
specification go over both, in the order of the release's programs. A field's name is its path in the recipe, which is a
Fiddle configuration: `trainer.strategy.context_parallel_size`; `callbacks.NAME.field` is of the callback of that class.
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
"""FP8 scaling by the recipes' abbreviation, in `nemo.collections.llm.recipes.precision.mixed_precision`."""

ASKED = {
    "lr": ("optim.config.lr",),
    "seed": ("data.seed",),
    "tp_comm_overlap": (f"{OVERLAP}.tp_comm_overlap",),
    "check_for_nan": ("trainer.strategy.ddp.check_for_nan_in_grad",),
}
"""Settings that only replace the recipe's value where the user gave one."""

ELSEWHERE = {"fp8_recipe", "moe_token_drop", "numa_binding", "overrides", "tokenizer"}
"""Settings that are honoured in another way."""


def recipe(spec: Spec, host: Host) -> Any:
    """The recipe of a run, a `nemo_run.Partial`. Raises `ConfigError` for what the installed NeMo lacks."""
    published = spec["published"]
    found = function(published["module"])(performance_mode=True)
    replace_model(found, published["model"])
    found.log.ckpt = found.log.tensorboard = None
    found.trainer.logger = False
    found.data.tokenizer = tokenizer(spec)
    precision(found, spec)
    if published["buffers"]:
        put(found, f"{OVERLAP}.tp_comm_overlap_cfg", buffers(published["buffers"]))
    for fields in (published["fields"], specified(spec), run_fields(spec), asked(spec)):
        for name, value in fields.items():
            put(found, name, value)
    if spec["mini"]:
        mini(found, spec, host)
    callbacks(found, spec, host)
    for word in str(setting(spec, "overrides", "")).split():
        name, _, text = word.partition("=")
        put(found, name, value_of(text))
    return found


def function(module: str) -> Any:
    """The recipe's function. Raises `ConfigError` where the installed version has no such recipe."""
    try:
        return importlib.import_module(module).pretrain_recipe
    except (ImportError, AttributeError):
        raise ConfigError(f"this NeMo{version()} has no recipe {module}: use the recipe's image") from None


def version() -> str:
    """` 2.3.1`, or nothing where it is not known."""
    from importlib import metadata

    try:
        return f" {metadata.version('nemo-toolkit')}"
    except metadata.PackageNotFoundError:
        return ""


def replace_model(found: Any, name: str | None) -> None:
    """Another class for the model, around the same configuration."""
    if name is None:
        return
    import nemo_run

    module, _, attribute = name.rpartition(".")
    found.model = nemo_run.Config(getattr(importlib.import_module(module), attribute), config=found.model.config)


def tokenizer(spec: Spec) -> Any:
    """No tokenizer but its vocabulary, or the model's own from the hub.

    NeMo's null tokenizer adds an end of document to the size that it is given.
    """
    import nemo_run

    if setting(spec, "tokenizer", "null") == "hub":
        from nemo.collections.common.tokenizers.huggingface.auto_tokenizer import AutoTokenizer

        return nemo_run.Config(AutoTokenizer, pretrained_model_name=spec["gated_tokenizer"], use_fast=True)
    from nemo.collections.nlp.modules.common.tokenizer_utils import get_nmt_tokenizer

    size = spec["model"]["vocab_size"] - 1
    return nemo_run.Config(get_nmt_tokenizer, library="null", model_name="NullTokenizer", vocab_size=size)


def precision(found: Any, spec: Spec) -> None:
    """FP8's precision plugin in place of the recipe's, gradients reduced in BF16 as the release's programs do.

    FP32, which the recipes do not have, is for minis.
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
    put(found, "trainer.plugins.grad_reduce_in_fp32", False)
    if setting(spec, "fp8_recipe", "delayed") == "cs":
        put(found, "trainer.plugins.first_last_layers_bf16", False)


def buffers(name: str) -> Any:
    """Tuned buffers of tensor-parallel overlap. Raises `ConfigError` where the version has none of that name."""
    from nemo.collections.llm.recipes.tp_overlap_configs import userbuffers

    if not hasattr(userbuffers, name):
        raise ConfigError(f"this NeMo{version()} has no {name}: use the recipe's image")
    return getattr(userbuffers, name)


def specified(spec: Spec) -> Fields:
    """The values of the specification. Raises `ConfigError` for what no NeMo 2 recipe does."""
    letters, strategy = spec["parallelism"], "trainer.strategy"
    if letters["fsdp"]:
        raise ConfigError("the NeMo 2 recipes have no FSDP: use --set fsdp=false")
    interleaved = letters["dp"] > 1 and letters["pp"] > 1 and (letters["vp"] or 1) > 1
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
        f"{strategy}.tensor_model_parallel_size": letters["tp"],
        f"{strategy}.pipeline_model_parallel_size": letters["pp"],
        f"{strategy}.virtual_pipeline_model_parallel_size": letters["vp"] if (letters["vp"] or 1) > 1 else None,
        f"{strategy}.context_parallel_size": letters["cp"],
        f"{strategy}.expert_model_parallel_size": letters["ep"] or 1,
        f"{strategy}.expert_tensor_parallel_size": letters["etp"],
        f"{strategy}.sequence_parallel": letters["tp"] > 1,
        f"{strategy}.use_te_rng_tracker": bool(spec["cuda_graphs"]),
        f"{OVERLAP}.overlap_param_gather_with_optimizer_step": interleaved and not checkpoints,
    }
    return {**fields, **memory(spec)}


def mini(found: Any, spec: Spec, host: Host) -> None:
    """A mini's shape and learning rate, and what a CPU changes: of a model's fields those that the version has."""
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
        without(found, nemo2_cpu.OVERLAP)
    known = {field.name for field in dataclasses.fields(found.model.config.__fn_or_cls__)}
    for name, value in fields.items():
        section, _, field = name.rpartition(".")
        if section != "model.config" or field in known:
            put(found, name, value)


def memory(spec: Spec) -> Fields:
    """Recomputed layers (RL) and layers whose activations wait in host memory (OL)."""
    fields: Fields = {}
    if spec["recompute_layers"]:
        fields |= {"recompute_granularity": "full", "recompute_method": "block"}
        fields["recompute_num_layers"] = spec["recompute_layers"]
    if spec["offload_layers"]:
        fields |= {"cpu_offloading": True, "cpu_offloading_weights": False}
        fields["cpu_offloading_num_layers"] = spec["offload_layers"]
    return {f"model.config.{name}": value for name, value in fields.items()}


def run_fields(spec: Spec) -> Fields:
    """What belongs to the run and not to the recipe: steps, samples, log lines, checkpoints.

    A run that resumes trains exactly one further step. NeMo saves at the end of the only epoch, which is the run's.
    """
    wanted = spec["checkpoint"]
    steps = 1 if wanted["load"] else spec["steps"]
    fields: Fields = {
        "trainer.max_steps": steps,
        "trainer.val_check_interval": steps,
        "trainer.log_every_n_steps": 1,
        "trainer.enable_checkpointing": bool(wanted["save"]),
        "data.num_train_samples": steps * spec["global_batch_size"],
    }
    if wanted["load"]:
        fields["resume"] = resume(wanted["load"])
    return fields


def resume(folder: str) -> Any:
    """Weights and optimizer of exactly this checkpoint."""
    import nemo_run
    from nemo import lightning as nl

    restore = nemo_run.Config(
        nl.RestoreConfig, path=folder, load_model_state=True, load_optim_state=True, load_artifacts=False
    )
    return nemo_run.Config(
        nl.AutoResume, resume_if_exists=True, resume_ignore_no_checkpoint=False, restore_config=restore
    )


def asked(spec: Spec) -> Fields:
    """What the user set. Raises `ConfigError` for a setting that these recipes do not have."""
    given = {name for name in spec["settings"] if spec["origins"].get(f"settings.{name}") == "--set"}
    unknown = sorted(given - ASKED.keys() - ELSEWHERE)
    if unknown:
        raise ConfigError(f"the NeMo 2 recipes have no setting {', '.join(unknown)}: leave it out")
    return {field: spec["settings"][name] for name in sorted(given & ASKED.keys()) for field in ASKED[name]}


def callbacks(found: Any, spec: Spec, host: Host) -> None:
    """NeMo's measurement of FLOPs and nsys's bracket, and no token drop where it was taken back."""
    import nemo_run
    from nemo.lightning.pytorch.callbacks import NsysCallback
    from nemo.lightning.pytorch.callbacks.flops_callback import FLOPsMeasurementCallback

    listed = found.trainer.callbacks
    if spec["origins"].get("settings.moe_token_drop") == "--set" and not spec["settings"]["moe_token_drop"]:
        without(found, "MegatronTokenDropCallback")
    if name := spec["published"]["flops_callback"]:
        listed.append(
            nemo_run.Config(
                FLOPsMeasurementCallback, model_config=found.model.config, data_config=found.data, model_name=name
            )
        )
    if profile := spec["profile"]:
        ranks = profiled_ranks(spec, host)
        listed.append(nemo_run.Config(NsysCallback, start_step=profile["start"], end_step=profile["stop"], ranks=ranks))


def without(found: Any, name: str) -> None:
    """Take a callback out of the recipe."""
    listed = found.trainer.callbacks
    listed[:] = [item for item in listed if kind(item) != name]


def kind(item: Any) -> str:
    """The name of the class that a Fiddle configuration makes."""
    return str(item.__fn_or_cls__.__name__)


def put(found: Any, name: str, value: Any) -> None:
    """Set one field by its path. Raises `ConfigError` for one that the installed version lacks."""
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
    """A user's value: JSON where it is JSON, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
