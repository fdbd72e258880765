"""Peak memory of a GPU: parameters, gradients and optimizer states by their sharding, and activations.

Source of the activations: Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, section 4,
with fused attention (no scores are stored), and the schedule of Narayanan et al., Efficient Large-Scale Language Model
Training on GPU Clusters Using Megatron-LM, section 2.2.
"""

from __future__ import annotations

from typing import Literal

from llmbx.api import Value

from ..case import Case
from .rates import LOW, known
from .roofline import local_parameters

WEIGHT, STATES = 2, 12
"""Bytes of a parameter: BF16 weights, and FP32 weights with two moments of Adam. A narrow weight is kept as it is and
transposed, which is as much."""
GRADIENT, NARROW_GRADIENT = 4, 2
"""Bytes of a gradient: FP32, and the BF16 of narrow matrix products and of the stacks in `NARROW_GRADIENTS`."""
NARROW_GRADIENTS = ("megatron-bridge", "megatron-core", "nemo2")
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
MEGATRON = ("megatron-bridge", "megatron-core", "megatron-lm", "nemo2", "own")
"""Stacks whose memory is estimated. What others recompute is a setting of theirs (MaxText's remat policies), and their
memory was never published."""
WITHIN = {"dense": 0.15, "moe": 0.3, "hybrid": 0.5}
"""Half width of the 90 % interval by family, relative: the errors that benchmarks/predict measures, and more for models
with experts and state spaces, as what their recipes recompute is not published."""


Stage = Literal["first", "last"]
"""A pipeline stage: the first has the most micro-batches in flight, the last the logits and prediction layers."""


class Memory(Value, frozen=True, kw_only=True):
    """Peak memory of the fullest GPU in GB (10^9 bytes), with its terms."""

    total_gb: float
    low_gb: float
    high_gb: float
    terms_gb: dict[str, float]


def estimate(case: Case) -> Memory | None:
    """The peak memory of a configuration, on the fuller of the first and the last pipeline stage.

    None if the model's shape, or what its stack keeps, is not known.
    """
    if not case.model.has_shape or case.stack not in MEGATRON:
        return None
    return max((of_stage(case, stage) for stage in ("first", "last")), key=lambda memory: memory.total_gb)


def of_stage(case: Case, stage: Stage) -> Memory:
    """The peak memory of a GPU of one pipeline stage."""
    terms = {**_static(case, stage), "activations": _activations(case, stage) / 1e9,
             "logits": _logits(case, stage) / 1e9, "fixed": FIXED_GB}  # fmt: skip
    total, within = sum(terms.values()), WITHIN[case.model.family]
    return Memory(total_gb=total, low_gb=total * (1 - within), high_gb=total * (1 + within), terms_gb=terms)


def limit_gb(gpu_type: str) -> float | None:
    """Memory of a GPU type in GB."""
    entry = known().get(gpu_type)
    return entry.memory_gb if entry else None


def _static(case: Case, stage: Stage) -> dict[str, float]:
    dense, expert = local_parameters(case)
    dense += _unequal(case, stage)
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


def _unequal(case: Case, stage: Stage) -> float:
    """Dense parameters of a tensor-parallel rank that a stage has beside its equal share of all.

    The first stage has the embedding, the last the output layer, and for prediction layers a second embedding.
    """
    if case.pp == 1:
        return 0.0
    matrix = case.model.hidden * case.model.vocab / case.tp
    matrices = 1 if case.model.tied else 2
    own = 2 if stage == "last" and case.model.mtp_layers else 1
    return matrix * (own - matrices / case.pp)


def _activations(case: Case, stage: Stage) -> float:
    """Bytes that a stage keeps for its micro-batches in flight; the last one also those of prediction layers."""
    model = case.model
    tokens, kept = case.mbs * case.seq / case.cp, model.layers / case.pp * _in_flight(case, stage)
    kept += model.mtp_layers if _has_output(case, stage) else 0
    again = 1.0 if case.recompute == "full" else case.recomputed
    inputs = again * 2 * kept * model.hidden / _sharded(case) + (_layer(case) if again else 0.0)
    narrow = NARROW_ACTIVATIONS if case.dtype in LOW else 1.0
    saved = (
        narrow * (0.75 if case.recompute == "selective" else 1.0) * (1 - min(1.0, case.offload_layers / model.layers))
    )
    return tokens * (inputs + (1 - again) * saved * kept * _layer(case))


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


def _in_flight(case: Case, stage: Stage) -> float:
    """Micro-batches whose activations a stage keeps, in units of its layers.

    With `vp` virtual stages the last one keeps (vp - 1) x pp + 1 parts, each 1/vp of its layers, the first 2 (pp - 1)
    more.
    """
    if case.pp == 1:
        return 1.0
    if case.vp == 1:
        whole: float = case.pp if stage == "first" else 1
    else:
        more = 2 * (case.pp - 1) if stage == "first" else 0
        whole = ((case.vp - 1) * case.pp + 1 + more) / case.vp
    return min(whole, case.accumulation)


def _logits(case: Case, stage: Stage) -> float:
    """Bytes of the logits, those of prediction layers included."""
    if not _has_output(case, stage):
        return 0.0
    return LOGIT_BYTES * case.mbs * case.seq / case.cp * case.model.vocab / case.tp * (1 + case.model.mtp_layers)


def _has_output(case: Case, stage: Stage) -> bool:
    return case.pp == 1 or stage == "last"
