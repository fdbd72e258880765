"""How the model is executed: parallelism, kernels, precision, memory, overlap. Pure: a specification in, fields out.

The values follow what Megatron-Bridge's own performance recipes set (0.3.1 and 0.6.2), for the letters of the
specification. `Host` says what is really there: without Transformer Engine the torch code paths are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmbx_nemo.entry import shapes

Spec = dict[str, Any]
Fields = dict[str, Any]

FP8_RECIPES = {
    "cs": "bf16_with_fp8_current_scaling_mixed",
    "mx": "bf16_with_mxfp8_mixed",
    "delayed": "bf16_with_fp8_delayed_scaling_mixed",
}
"""FP8 scaling by the recipes' abbreviation: per tensor from current values, MX blocks, per tensor from history."""


@dataclass(frozen=True)
class Host:
    """What the rank finds: CUDA, Transformer Engine, and how many ranks there are."""

    cuda: bool
    te: bool
    world: int


def problems(spec: Spec, host: Host) -> list[str]:
    """Why this machine cannot run the specification, one line each; empty when it can."""
    letters = spec["parallelism"]
    found = []
    unknown = spec["architecture"].keys() - shapes.KNOWN
    if unknown:
        found.append(f"architecture: '{min(unknown)}' is unknown here (known: {', '.join(sorted(shapes.KNOWN))})")
    if host.world != spec["gpus"]:
        found.append(f"{host.world} ranks were started for {spec['gpus']} GPUs")
    if spec["dtype"] not in ("fp32", "bf16", "fp8"):
        found.append(f"dtype '{spec['dtype']}' is unknown here (known: bf16, fp8, fp32)")
    if setting(spec, "fp8_recipe", "cs") not in FP8_RECIPES:
        found.append(f"fp8_recipe '{spec['settings']['fp8_recipe']}' is unknown (known: {', '.join(FP8_RECIPES)})")
    if not host.te:
        wants = {
            "FP8": spec["dtype"] == "fp8",
            "context parallelism (cp)": letters["cp"] > 1,
            "offloading layers (OL)": spec["offload_layers"] > 0,
            "CUDA graphs": spec["cuda_graphs"],
            "tensor parallelism (tp) of experts": letters["tp"] > 1 and bool(spec["model"].get("experts")),
        }
        found += [f"no {what} here: Transformer Engine is not installed" for what, wanted in wants.items() if wanted]
    if host.te and setting(spec, "attention", "auto") != "auto":
        found.append("Transformer Engine is here and chooses the attention: leave --set attention out")
    if letters["fsdp"] and not host.cuda:
        found.append("no FSDP here: Megatron's needs CUDA")
    return found


def setting(spec: Spec, name: str, default: Any) -> Any:
    """A framework setting of the specification, or `default` where it is unset."""
    value = spec["settings"].get(name)
    return default if value is None else value


def parallel(spec: Spec, host: Host) -> Fields:
    """Degrees of parallelism. Embedding and loss count as layers where only then the stages come out even."""
    letters = spec["parallelism"]
    tp, pp, vp = letters["tp"], letters["pp"], letters["vp"] or 1
    stages = pp * vp if pp > 1 else 1
    layers = spec["model"]["layers"]
    counted = layers % stages != 0 and (layers + 2) % stages == 0
    return {
        "tensor_model_parallel_size": tp,
        "pipeline_model_parallel_size": pp,
        "virtual_pipeline_model_parallel_size": vp if pp > 1 and vp > 1 else None,
        "context_parallel_size": letters["cp"],
        "expert_model_parallel_size": letters["ep"] or 1,
        "expert_tensor_parallel_size": letters["etp"],
        "sequence_parallel": tp > 1 and host.te,
        "pipeline_dtype": "float32" if spec["dtype"] == "fp32" else "bfloat16",
        "account_for_embedding_in_pipeline_split": counted,
        "account_for_loss_in_pipeline_split": counted,
    }


def kernels(spec: Spec, host: Host) -> Fields:
    """Fused kernels where Transformer Engine has them, those that torch compiles on a GPU without it, none on a CPU."""
    fused, compiled = host.te, host.cuda
    experts, words = bool(spec["model"].get("experts")), spec["architecture"]
    fields: Fields = {
        "transformer_impl": "transformer_engine" if fused else "local",
        "attention_backend": None,
        "core_attention": attention(spec, host),
        # experts fuse SwiGLU, and not GELU
        "bias_activation_fusion": compiled and not (experts and words.get("activation") == "gelu"),
        "bias_dropout_fusion": compiled,
        "masked_softmax_fusion": fused,
        "persist_layer_norm": fused,
        "apply_rope_fusion": fused and not words.get("rotary_interleaved"),
        # Megatron's own fused cross entropy gives gradients in BF16
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
    """The core attention of Megatron-Core's own layers: by default torch's best on a GPU, its own elsewhere."""
    chosen = str(setting(spec, "attention", "auto"))
    if chosen == "auto":
        return "sdpa" if host.cuda and not host.te else "unfused"
    return chosen


def graphs(spec: Spec) -> Fields:
    """CUDA graphs: the whole iteration where nothing is decided on the host, attention and router where experts are."""
    if not spec["cuda_graphs"]:
        return {"cuda_graph_impl": "none"}
    if spec["model"].get("experts") or spec["parallelism"]["fsdp"]:
        scope = ["attn", "moe_router", "moe_preprocess"] if spec["model"].get("experts") else ["attn"]
        return {"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": scope, "use_te_rng_tracker": True}
    return {"cuda_graph_impl": "local", "cuda_graph_scope": ["full_iteration"], "use_te_rng_tracker": True}


def memory(spec: Spec) -> Fields:
    """Recomputed layers (RL), activations moved to host memory (OL), and FSDP's empty start."""
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
    """The mixed-precision recipe and what differs from it; None for plain FP32."""
    if spec["dtype"] == "fp32":
        return None
    fields: Fields = {"recipe": "bf16_mixed", "grad_reduce_in_fp32": not host.cuda}
    if spec["dtype"] == "fp8":
        fields["recipe"] = FP8_RECIPES[setting(spec, "fp8_recipe", "cs")]
        fields["first_last_layers_bf16"] = False
    return fields


def ddp(spec: Spec, host: Host) -> Fields:
    """Data parallelism: gradient buckets, the distributed optimizer, and FSDP where the letter asks for it."""
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
    """Whether optimizer state is sharded over the data-parallel ranks.

    Without Transformer Engine's Adam it is not: Megatron-Core 0.16 cannot resume such a state from torch's Adam.
    """
    return host.te


def checks_nan(spec: Spec) -> bool:
    """Whether every loss and gradient is checked (a synchronisation that the performance recipes leave out)."""
    return bool(setting(spec, "check_for_nan", False)) and not spec["cuda_graphs"]


def overlap(spec: Spec, host: Host) -> Fields | None:
    """Communication overlapped with computation, on CUDA only."""
    if not host.cuda:
        return None
    letters = spec["parallelism"]
    interleaved = letters["dp"] > 1 and letters["pp"] > 1 and (letters["vp"] or 1) > 1
    # the optimizer-step overlap goes neither with checkpoints nor with MX blocks, whose gather reuses gradient buffers
    checkpoints = spec["checkpoint"]["save"] or spec["checkpoint"]["load"]
    blocks = spec["dtype"] == "fp8" and setting(spec, "fp8_recipe", "cs") == "mx"
    return {
        "tp_comm_overlap": bool(setting(spec, "tp_comm_overlap", False)) and letters["tp"] > 1 and host.te,
        "overlap_param_gather_with_optimizer_step": interleaved and not checkpoints and not blocks,
    }


def userbuffers(spec: Spec) -> list[str]:
    """Names under which Megatron-Bridge may keep tuned buffers for tensor-parallel overlap, best first."""
    letters, shape = spec["parallelism"], spec["model"]
    gpu = "h100" if spec["gpu_type"] in ("h100", "h200") else "b200"
    kind = "fp8" if spec["dtype"] == "fp8" else "bf16"
    stem = f"userbuffers_{kind}_{gpu}_h{shape['hidden_size']}_tp{letters['tp']}"
    tail = f"_mbs{spec['micro_batch_size']}_seqlen{shape['sequence_length']}"
    return [f"{stem}_cp{letters['cp']}{tail}", f"{stem}{tail}"]
