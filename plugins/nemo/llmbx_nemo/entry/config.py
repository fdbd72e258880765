"""Build the configuration objects of the installed Megatron-Bridge from plain settings.

Differences between versions are handled here, by the fields that a class has. A setting without a field is moved to the
section in which a later version has it, left out if the model is the same without it, and an error otherwise.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from llmbx_nemo.entry import hub
from llmbx_nemo.entry.execution import Fields

MOVED = {
    "train.eval_iters": "validation.eval_iters",
    "train.eval_interval": "validation.eval_interval",
    "dataset.sequence_length": "dataset.seq_length",
}
"""Fields that are in another section in later versions."""

OPTIONAL = {
    "ddp.fsdp_double_buffer",
    "ddp.keep_fp8_transpose_cache",
    "ddp.suggested_communication_unit_size",
    "logger.save_config_filepath",
    "model.moe_permute_fusion",
    "model.moe_shared_expert_overlap",
    "optimizer.use_precision_aware_optimizer",
    "scheduler.lr_warmup_iters",
}
"""Fields that only tune performance: a version without them trains the same model."""

CLASSES = {
    "train": "TrainingConfig",
    "optimizer": "OptimizerConfig",
    "scheduler": "SchedulerConfig",
    "ddp": "DistributedDataParallelConfig",
    "dataset": "GPTDatasetConfig",
    "tokenizer": "TokenizerConfig",
    "checkpoint": "CheckpointConfig",
    "logger": "LoggerConfig",
    "rng": "RNGConfig",
    "dist": "DistributedInitConfig",
    "rerun_state_machine": "RerunStateMachineConfig",
    "profiling": "ProfilingConfig",
    "validation": "ValidationConfig",
}
"""The class of each section, in `megatron.bridge.training.config`."""


class ConfigError(ValueError):
    """A setting that the installed framework does not support; the message is one line."""


def container(sections: dict[str, Fields | None], buffers: list[str] | None = None) -> Any:
    """Return the `ConfigContainer` for `sections`. `buffers` lists names of tuned overlap buffers, best first."""
    from megatron.bridge.training import config as bridge

    moved = relocate(sections, {name: fields_of(getattr(bridge, CLASSES[name], None)) for name in CLASSES})
    parts = {
        name: assemble(getattr(bridge, CLASSES[name]), fields, name)
        for name, fields in moved.items()
        if name in CLASSES and fields is not None
    }
    return bridge.ConfigContainer(
        model=provider(moved["model"] or {}, parts["tokenizer"]),
        mixed_precision=mixed_precision(moved["mixed_precision"]),
        comm_overlap=comm_overlap(moved["comm_overlap"], buffers or []),
        **parts,
    )


def fields_of(kind: Any) -> set[str]:
    """Return the field names of a configuration class; empty if the version has no such class."""
    return {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()


def relocate(sections: dict[str, Fields | None], known: dict[str, set[str]]) -> dict[str, Fields | None]:
    """Return `sections` with every field moved to the section in which the installed version has it."""
    placed: dict[str, Fields | None] = {name: None if fields is None else {} for name, fields in sections.items()}
    for name, fields in sections.items():
        for field, value in (fields or {}).items():
            section, _, target = MOVED.get(f"{name}.{field}", f"{name}.{field}").partition(".")
            if target not in known.get(section, set()):
                section, target = name, field
            placed[section] = {**(placed.get(section) or {}), target: value}
    return placed


def assemble(kind: Any, fields: Fields, section: str) -> Any:
    """Return an instance of `kind`. Raises `ConfigError` for an unknown field that is not in `OPTIONAL`."""
    names = fields_of(kind) | {"seq_length"}
    for field in fields.keys() - names:
        if f"{section}.{field}" not in OPTIONAL:
            near = difflib.get_close_matches(field, names, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            raise ConfigError(f"this Megatron-Bridge has no {section}.{field}{hint}")
    return kind(**{name: value for name, value in fields.items() if name in names})


def provider(fields: Fields, tokenizer: Any) -> Any:
    """Return the GPT model provider. Its vocabulary size is the tokenizer's, padded to be divisible among the ranks."""
    if "hub" in fields:
        return of_hub(fields)
    import torch
    import torch.nn.functional as functional
    from megatron.bridge.models.gpt_provider import GPTModelProvider

    plain = {name: value for name, value in fields.items() if name != "core_attention"}
    kind, scaled = rope_scaling(plain, GPTModelProvider)
    values = {
        **graphs(scaled, fields_of(kind), annotation(kind, "cuda_graph_impl"), annotation(kind, "cuda_graph_scope")),
        "activation_func": getattr(functional, fields["activation_func"]),
        "pipeline_dtype": getattr(torch, fields["pipeline_dtype"]),
        "transformer_layer_spec": layer_spec(fields),
    }
    if hasattr(tokenizer, "use_tokenizer_vocab_size") and tokenizer.vocab_size:
        values |= {"vocab_size": tokenizer.vocab_size, "should_pad_vocab": True}
    return assemble(kind, values, "model")


def of_hub(fields: Fields) -> Any:
    """Return the provider of a model of the hub. Raises `ConfigError` for a field that it does not have."""
    try:
        return hub.provider(fields)
    except AttributeError as error:
        raise ConfigError(str(error)) from None


def annotation(kind: Any, name: str) -> str:
    """Return the type of a field as text; empty if the class has no such field."""
    return next((str(field.type) for field in dataclasses.fields(kind) if field.name == name), "")


def rope_scaling(fields: Fields, kind: Any) -> tuple[Any, Fields]:
    """Return the provider class and its fields, with Llama 3.1's RoPE scaling in the form of the installed version.

    Version 0.3.1 and newer have fields for it, earlier versions a separate class.
    """
    names = ("rope_scaling", "rope_scaling_factor")
    if names[0] in fields_of(kind) or not any(name in fields for name in names):
        return kind, fields
    rest = {name: value for name, value in fields.items() if name not in names}
    if not fields.get("rope_scaling"):
        return kind, rest
    from megatron.bridge.models.llama.llama_provider import Llama31ModelProvider

    return Llama31ModelProvider, {**rest, "scale_factor": fields["rope_scaling_factor"]}


def graphs(fields: Fields, known: set[str], impl: str, scope: str) -> Fields:
    """Return `fields` with the CUDA graph settings translated for the installed version.

    `known` are the field names of its model class, `impl` and `scope` the types of its two CUDA graph fields. Version
    0.1 has one switch for local graphs and one for Transformer Engine's, 0.2 has fields for implementation and scope,
    0.3 takes a list of scopes, and later versions treat the full iteration as an implementation.
    """
    rest = {name: value for name, value in fields.items() if name not in ("cuda_graph_impl", "cuda_graph_scope")}
    kind, scopes = fields.get("cuda_graph_impl", "none"), fields.get("cuda_graph_scope")
    if "cuda_graph_impl" not in known:
        return {**rest, "enable_cuda_graph": kind == "local", "external_cuda_graph": kind == "transformer_engine"}
    if scopes == ["full_iteration"] and "full" in impl:
        kind, scopes = "full_iteration", []
    if scopes and scope in ("str", "<class 'str'>"):
        scopes = "full_iteration" if "full_iteration" in scopes else "attn"
    return {**rest, "cuda_graph_impl": kind, **({} if scopes is None else {"cuda_graph_scope": scopes})}


def layer_spec(fields: Fields) -> Any:
    """Return the layer specification: Transformer Engine's or Megatron-Core's layers, with attention replaced if set.

    `core_attention` names the attention; `unfused` leaves the framework's own.
    """
    plain = plain_spec(fields)
    if fields.get("core_attention", "unfused") == "unfused":
        return plain
    from llmbx_nemo.entry import attention

    return attention.in_layers(plain, fields["core_attention"])


def plain_spec(fields: Fields) -> Any:
    """Return the framework's own layer specification; listed layer by layer if dense and MoE layers alternate."""
    from megatron.bridge.models import gpt_provider
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec

    te = fields["transformer_impl"] == "transformer_engine"

    def alike(config: Any, vp_stage: int | None = None) -> Any:
        return gpt_provider.default_layer_spec(config) if te else gpt_provider.local_layer_spec(config)

    def interleaved(config: Any, vp_stage: int | None = None) -> Any:
        return get_gpt_decoder_block_spec(config, use_transformer_engine=te, normalization="RMSNorm", vp_stage=vp_stage)

    return interleaved if isinstance(fields.get("moe_layer_freq"), list) else alike


def mixed_precision(fields: Fields | None) -> Any:
    """Return Megatron-Bridge's precision recipe `fields["recipe"]` with the other fields set; None for plain FP32."""
    if fields is None:
        return None
    from megatron.bridge.training.mixed_precision import get_mixed_precision_config

    config = get_mixed_precision_config(fields.get("recipe", "bf16_mixed"))
    for name, value in fields.items():
        if name != "recipe":
            setattr(config, name, value)
    return config


def comm_overlap(fields: Fields | None, buffers: list[str]) -> Any:
    """Return the overlap configuration, with tuned buffers if Megatron-Bridge has them for exactly this shape."""
    if fields is None:
        return None
    from megatron.bridge.training import comm_overlap as bridge

    values = {"tp_comm_overlap": False, **fields}
    tuned = next((getattr(bridge, name) for name in buffers if hasattr(bridge, name)), None)
    return bridge.CommOverlapConfig(**values, tp_comm_overlap_cfg=tuned if values["tp_comm_overlap"] else None)
