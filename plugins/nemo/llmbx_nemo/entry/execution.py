"""Configuration fields for the execution of the model: parallelism, kernels, precision, memory, overlap.

The functions are pure: they turn a specification into fields. The values are those of Megatron-Bridge's own performance
recipes (0.3.1 and 0.6.2), for the parallelism of the specification. Without Transformer Engine (see `Host`), the torch
code paths are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmbx_nemo.entry import shapes

PACKAGES = ("megatron-bridge", "megatron-core", "nemo-toolkit", "torch", "transformer-engine")
"""Packages whose versions are written with the final configuration."""

Spec = dict[str, Any]
Fields = dict[str, Any]

DTYPES = ("bf16", "fp32", "fp8", "mxfp8", "nvfp4")

FP8_RECIPES = {
    "cs": "bf16_with_fp8_current_scaling_mixed",
    "mx": "bf16_with_mxfp8_mixed",
    "delayed": "bf16_with_fp8_delayed_scaling_mixed",
}
"""Megatron-Bridge's precision recipe by `fp8_recipe`: scaling per tensor from current values (cs), per MX block (mx),
or per tensor from earlier values (delayed)."""


@dataclass(frozen=True)
class Host:
    """The environment of a rank: whether CUDA and Transformer Engine are available, and the number of ranks."""

    cuda: bool
    te: bool
    world: int


def problems(spec: Spec, host: Host) -> list[str]:
    """Return the reasons why this machine cannot run the specification, one line each."""
    parallelism = spec["parallelism"]
    reasons = []
    unknown = spec["architecture"].keys() - shapes.KNOWN
    if unknown:
        reasons.append(f"unknown architecture key '{min(unknown)}' (known: {', '.join(sorted(shapes.KNOWN))})")
    if host.world != spec["gpus"]:
        reasons.append(f"{host.world} ranks were started for {spec['gpus']} GPUs")
    if spec["dtype"] not in DTYPES:
        reasons.append(f"unknown dtype '{spec['dtype']}' (known: {', '.join(DTYPES)})")
    if setting(spec, "fp8_recipe", "cs") not in FP8_RECIPES:
        reasons.append(f"unknown fp8_recipe '{spec['settings']['fp8_recipe']}' (known: {', '.join(FP8_RECIPES)})")
    if not host.te:
        wants = {
            spec["dtype"].upper(): spec["dtype"] not in ("bf16", "fp32"),
            "context parallelism (cp)": parallelism["cp"] > 1,
            "layer offloading (OL)": spec["offload_layers"] > 0,
            "CUDA graphs": spec["cuda_graphs"],
            "Mamba layers": bool(spec["model"].get("ssm_layers")),
            "tensor parallelism (tp) of experts": parallelism["tp"] > 1 and bool(spec["model"].get("experts")),
        }
        reasons += [f"not supported without Transformer Engine: {what}" for what, used in wants.items() if used]
    if host.te and setting(spec, "attention", "auto") != "auto":
        reasons.append("Transformer Engine selects the attention itself: leave --set attention out")
    if "hub" in spec["architecture"] and setting(spec, "attention", "auto") not in ("auto", "unfused"):
        reasons.append(
            f"the attention of {spec['architecture']['hub']} has only Megatron's own kernel: use attention=unfused"
        )
    if parallelism["fsdp"] and not host.cuda:
        reasons.append("FSDP requires CUDA")
    return reasons


def setting(spec: Spec, name: str, default: Any) -> Any:
    """Return a framework setting of the specification, or `default` if it is unset."""
    value = spec["settings"].get(name)
    return default if value is None else value


def parallel(spec: Spec, host: Host) -> Fields:
    """Return the degrees of parallelism.

    Embedding and loss count as one layer each if the pipeline stages are equal only then.
    """
    parallelism = spec["parallelism"]
    tp, pp, vp = parallelism["tp"], parallelism["pp"], parallelism["vp"] or 1
    stages = pp * vp if pp > 1 else 1
    layers = spec["model"]["layers"]
    counted = layers % stages != 0 and (layers + 2) % stages == 0
    return {
        "tensor_model_parallel_size": tp,
        "pipeline_model_parallel_size": pp,
        "virtual_pipeline_model_parallel_size": vp if pp > 1 and vp > 1 else None,
        "context_parallel_size": parallelism["cp"],
        "expert_model_parallel_size": parallelism["ep"] or 1,
        "expert_tensor_parallel_size": parallelism["etp"],
        "sequence_parallel": tp > 1 and host.te,
        # With gloo, messages to and from the same rank in one batch are mixed up if there are virtual stages.
        "batch_p2p_comm": host.cuda,
        "pipeline_dtype": "float32" if spec["dtype"] == "fp32" else "bfloat16",
        "account_for_embedding_in_pipeline_split": counted,
        "account_for_loss_in_pipeline_split": counted,
    }


def kernels(spec: Spec, host: Host) -> Fields:
    """Return the kernel fields.

    With Transformer Engine these are its fused kernels, on a GPU without it the kernels that torch compiles, and on a
    CPU no fused kernels.
    """
    fused, compiled = host.te, host.cuda
    experts, architecture = bool(spec["model"].get("experts")), spec["architecture"]
    fields: Fields = {
        "transformer_impl": "transformer_engine" if fused else "local",
        "attention_backend": None,
        "core_attention": attention(spec, host),
        # expert layers support fused SwiGLU, but not fused GELU
        "bias_activation_fusion": compiled and not (experts and architecture.get("activation") == "gelu"),
        "bias_dropout_fusion": compiled,
        "masked_softmax_fusion": fused,
        "persist_layer_norm": fused,
        "apply_rope_fusion": fused and not architecture.get("rotary_interleaved"),
        # Megatron's own fused cross entropy returns gradients in BF16
        "cross_entropy_loss_fusion": compiled and (fused or spec["dtype"] != "fp32"),
        "cross_entropy_fusion_impl": "te" if fused else "native",
    }
    if not fused or spec["parallelism"]["fsdp"]:
        fields["gradient_accumulation_fusion"] = False
    if experts:
        drop = bool(setting(spec, "moe_token_drop", False))
        fields |= {
            "moe_grouped_gemm": fused,
            "moe_permute_fusion": fused,
            "moe_shared_expert_overlap": fused and bool(spec["model"].get("shared_ffn_hidden_size")),
            "moe_expert_capacity_factor": 1.0 if drop else None,
            "moe_pad_expert_input_to_capacity": drop,
        }
    return fields


def attention(spec: Spec, host: Host) -> str:
    """Return the core attention of Megatron-Core's own layers (default: torch's best kernel on a GPU, else unfused)."""
    chosen = str(setting(spec, "attention", "auto"))
    if chosen == "auto":
        return "sdpa" if host.cuda and not host.te and "hub" not in spec["architecture"] else "unfused"
    return chosen


def graphs(spec: Spec) -> Fields:
    """Return the CUDA graph fields.

    The graph covers the full iteration, or only attention and router in models with experts, and only attention with
    FSDP: the rest of such an iteration depends on decisions on the host.
    """
    if not spec["cuda_graphs"]:
        return {"cuda_graph_impl": "none"}
    if spec["model"].get("experts") or spec["parallelism"]["fsdp"]:
        scope = ["attn", "moe_router", "moe_preprocess"] if spec["model"].get("experts") else ["attn"]
        return {"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": scope, "use_te_rng_tracker": True}
    return {"cuda_graph_impl": "local", "cuda_graph_scope": ["full_iteration"], "use_te_rng_tracker": True}


def memory(spec: Spec) -> Fields:
    """Return the fields for recomputed layers (RL), layers with offloaded activations (OL), and FSDP's meta device."""
    fields: Fields = {}
    if spec["recompute_layers"]:
        fields |= {
            "recompute_granularity": "full",
            "recompute_method": "block",
            "recompute_num_layers": spec["recompute_layers"],
        }
    if spec["offload_layers"]:
        fields |= {
            "cpu_offloading": True,
            "cpu_offloading_weights": False,
            "cpu_offloading_num_layers": spec["offload_layers"],
        }
    if spec["parallelism"]["fsdp"]:
        fields["init_model_with_meta_device"] = True
    return fields


def precision(spec: Spec, host: Host) -> Fields | None:
    """Return the mixed-precision recipe and the fields that differ from it; None for plain FP32."""
    if spec["dtype"] == "fp32":
        return None
    fields: Fields = {"recipe": "bf16_mixed", "grad_reduce_in_fp32": not host.cuda}
    if spec["dtype"] == "fp8":
        fields["recipe"] = FP8_RECIPES[setting(spec, "fp8_recipe", "cs")]
        fields["first_last_layers_bf16"] = False
    return fields


def ddp(spec: Spec, host: Host) -> Fields:
    """Return the data-parallel fields: gradient reduction, the distributed optimizer, and FSDP if it is enabled."""
    fields: Fields = {
        "check_for_nan_in_grad": checks_nan(spec),
        "grad_reduce_in_fp32": not host.cuda or spec["dtype"] == "fp32",
        "overlap_grad_reduce": host.cuda and (host.te or spec["parallelism"]["dp"] > 1),
        "overlap_param_gather": host.cuda and distributed_optimizer(host),
        "average_in_collective": host.cuda and not spec["parallelism"]["fsdp"],
        "use_distributed_optimizer": distributed_optimizer(host),
    }
    if spec["parallelism"]["fsdp"]:
        fields |= {
            "use_megatron_fsdp": True,
            "data_parallel_sharding_strategy": "optim_grads_params",
            "keep_fp8_transpose_cache": False,
            "fsdp_double_buffer": True,
            "suggested_communication_unit_size": 800_000_000,
        }
    return fields


def distributed_optimizer(host: Host) -> bool:
    """Whether the optimizer state is sharded over the data-parallel ranks.

    It is not with torch's Adam, because Megatron-Core 0.16 cannot resume sharded state of torch's Adam.
    """
    return host.te


def checks_nan(spec: Spec) -> bool:
    """Whether every loss and gradient is checked for NaN (a synchronization that the performance recipes leave out)."""
    return bool(setting(spec, "check_for_nan", False)) and not spec["cuda_graphs"]


def overlap(spec: Spec, host: Host) -> Fields | None:
    """Return the fields that overlap communication with computation; None without CUDA."""
    if not host.cuda:
        return None
    parallelism = spec["parallelism"]
    interleaved = parallelism["dp"] > 1 and parallelism["pp"] > 1 and (parallelism["vp"] or 1) > 1
    # the optimizer-step overlap supports neither checkpoints nor MX blocks, whose gather reuses gradient buffers
    checkpoints = spec["checkpoint"]["save"] or spec["checkpoint"]["load"]
    blocks = spec["dtype"] == "fp8" and setting(spec, "fp8_recipe", "cs") == "mx"
    return {
        "tp_comm_overlap": bool(setting(spec, "tp_comm_overlap", False)) and parallelism["tp"] > 1 and host.te,
        "overlap_param_gather_with_optimizer_step": interleaved and not checkpoints and not blocks,
    }


def userbuffers(spec: Spec) -> list[str]:
    """Return the names under which Megatron-Bridge may have tuned buffers for tensor-parallel overlap, best first."""
    parallelism, shape = spec["parallelism"], spec["model"]
    gpu = "h100" if (spec.get("layout_of") or spec["gpu_type"]) in ("h100", "h200") else "b200"
    kind = "fp8" if spec["dtype"] == "fp8" else "bf16"
    stem = f"userbuffers_{kind}_{gpu}_h{shape['hidden_size']}_tp{parallelism['tp']}"
    tail = f"_mbs{spec['micro_batch_size']}_seqlen{shape['sequence_length']}"
    return [f"{stem}_cp{parallelism['cp']}{tail}", f"{stem}{tail}"]
