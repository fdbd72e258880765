"""Peak memory of a GPU: parameters, gradients and optimizer states by their sharding, and activations.

Source of the activations: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, section 4,
with fused attention (no scores are stored), and the schedule of Narayanan et al., Efficient Large-Scale Language Model
Training on GPU Clusters Using Megatron-LM, section 2.2.
"""

from __future__ import annotations

from llmbx.api import Value

from ..case import Case
from .rates import LOW, known
from .roofline import local_parameters

WEIGHT, STATES = 2, 12
"""Bytes of a parameter: BF16 weights, and FP32 weights with two moments of Adam. A narrow weight is kept as it is and
transposed, which is as much."""
GRADIENT, NARROW_GRADIENT = 4, 2
"""Bytes of a gradient: FP32, and the BF16 of narrow matrix products and of the stacks in `NARROW_GRADIENTS`."""
NARROW_GRADIENTS = ("megatron-bridge",)
NARROW_ACTIVATIONS = 0.6
"""Activations with narrow matrix products over those in BF16: the inputs of the products are kept in 8 bits."""
HIDDEN_BYTES, FFN_BYTES, PLAIN_FFN_BYTES = 11.0, 6.0, 4.0
"""Bytes that a layer keeps for its backward pass per token and element of the hidden width and of the width of a gated
or plain FFN; queries, keys and values have 2 each."""
ROUTED_BYTES = 4.0
"""Bytes per routed token and element of the hidden width: the token as it is sent to its expert and comes back."""
LOGIT_BYTES = 6.0
"""Bytes per token and entry of the vocabulary on the last stage: logits in BF16 and FP32."""
FIXED_GB = 1.0
"""Workspaces and buffers, in GB (10^9 bytes)."""
MEGATRON = ("megatron-bridge", "megatron-lm", "nemo2", "own")
"""Stacks whose memory is estimated. What others recompute is a setting of theirs (MaxText's remat policies), and nobody
published their memory."""
WITHIN = {"dense": 0.15, "moe": 0.5, "hybrid": 0.5}
"""Half width of the 90 % interval by family, relative: the errors that benchmarks/predict measures."""


class Memory(Value, frozen=True, kw_only=True):
    """Peak memory of the fullest GPU in GB (10^9 bytes), with its terms."""

    total_gb: float
    low_gb: float
    high_gb: float
    terms_gb: dict[str, float]


def estimate(case: Case) -> Memory | None:
    """The peak memory of a configuration; None if the model's shape, or what its stack keeps, is not known."""
    if not case.model.has_shape or case.stack not in MEGATRON:
        return None
    terms = {**_static(case), "activations": _activations(case) / 1e9, "logits": _logits(case) / 1e9,
             "fixed": FIXED_GB}  # fmt: skip
    total, within = sum(terms.values()), WITHIN[case.model.family]
    return Memory(total_gb=total, low_gb=total * (1 - within), high_gb=total * (1 + within), terms_gb=terms)


def limit_gb(gpu_type: str) -> float | None:
    """Memory of a GPU type in GB."""
    found = known().get(gpu_type)
    return found.memory_gb if found else None


def _static(case: Case) -> dict[str, float]:
    dense, expert = local_parameters(case)
    dense += _embedding(case) * (1 - 1 / case.pp)
    replicas, expert_replicas = case.dp * case.cp, max(1.0, case.gpus / (case.ep * case.etp * case.pp))
    shard, expert_shard = (replicas, expert_replicas) if case.fsdp else (1.0, 1.0)
    kept = dense / shard + expert / expert_shard
    if case.task == "lora":
        return {"weights": WEIGHT * kept / 1e9, "gradients": 0.0, "optimizer": 0.0}
    unsharded = 4 * dense / case.model.layers if case.fsdp else 0.0  # two layers are gathered at a time
    return {
        "weights": (WEIGHT * kept + unsharded) / 1e9,
        "gradients": _gradient(case) * kept / 1e9,
        "optimizer": STATES * (dense / replicas + expert / expert_replicas) / 1e9,
    }


def _gradient(case: Case) -> int:
    return NARROW_GRADIENT if case.dtype in LOW or case.stack in NARROW_GRADIENTS else GRADIENT


def _embedding(case: Case) -> float:
    """Parameters of the input embedding on one tensor-parallel rank: the first stage has all of it."""
    return case.model.hidden * case.model.vocab / case.tp


def _activations(case: Case) -> float:
    """Bytes that the first stage keeps, which has the most micro-batches in flight."""
    model = case.model
    tokens, kept = case.mbs * case.seq / case.cp, model.layers / case.pp * _in_flight(case)
    if case.recompute == "full":
        return tokens * (2 * kept * model.hidden / _sharded(case) + _layer(case))
    narrow = NARROW_ACTIVATIONS if case.dtype in LOW else 1.0
    saved = narrow * (0.75 if case.recompute == "selective" else 1.0) * (1 - case.offload_layers / model.layers)
    return saved * tokens * kept * _layer(case)


def _sharded(case: Case) -> int:
    """The part of what is outside of the matrix products that a tensor-parallel rank has."""
    return case.tp if case.sequence_parallel else 1


def _layer(case: Case) -> float:
    """Bytes per token that an average layer keeps on one tensor-parallel rank."""
    model, per_ffn = case.model, FFN_BYTES if case.model.gated else PLAIN_FFN_BYTES
    width = (
        model.mlp_layers * model.ffn + model.moe_layers * model.shared_ffn + model.ssm_layers * 128 * model.ssm_heads
    )
    heads = model.heads + 2 * (model.groups or model.heads)
    split = per_ffn * width + 2 * model.mixers * heads * model.head
    routed = (
        model.moe_layers
        * model.top_k
        * (per_ffn * model.moe_ffn / case.etp + ROUTED_BYTES * (model.latent or model.hidden))
    )
    return HIDDEN_BYTES * model.hidden / _sharded(case) + (split / case.tp + routed / _sharded(case)) / model.layers


def _in_flight(case: Case) -> float:
    """Micro-batches whose activations the first stage keeps, in units of its layers."""
    if case.pp == 1:
        return 1.0
    whole = case.pp + (case.pp - 1) / case.vp if case.vp > 1 else case.pp
    return min(whole, case.accumulation)


def _logits(case: Case) -> float:
    """Bytes of the logits; with a pipeline the last stage has them, and few activations."""
    if case.pp > 1:
        return 0.0
    return LOGIT_BYTES * case.mbs * case.seq / case.cp * case.model.vocab / case.tp
