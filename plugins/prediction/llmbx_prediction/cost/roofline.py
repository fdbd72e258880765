"""Analytical terms of a step: the seconds that each kind of work would take at the rated speed of the GPU.

The terms are not the prediction: a calibrated coefficient multiplies each (see `llmbx_prediction.regression`).
"""

from __future__ import annotations

import math

from ..case import Case
from .model import Model, terms
from .rates import Rates, rates

SMALL = 512
"""The sum of the reciprocals of the sides of a matrix product, times this, is its loss at the edges and in waves: 1 for
a cube with sides of 1,536."""
FORWARD = 1 / 3
"""Part of the operations that the forward pass has, which full recomputation repeats."""
FLASH = 3.5 / 3
"""Operations of a fused attention kernel over those of the formula: its backward pass computes the scores again."""
ACTIVATION_BYTES = (120, 40)
"""Bytes that element-wise kernels move per token and layer, per element of the hidden and of the FFN width."""
QUANTIZE_BYTES = 12
"""Bytes that casts to a narrow dtype move per token, layer and element of the inputs of matrix products."""
FOUR_BITS = ("nvfp4", "mxfp4")
"""Dtypes whose published gain on models with experts (Nemotron 3 Super, -1 to 6 % over MXFP8) leaves no room for expert
products at twice the rate of FP8."""
OPTIMIZER_BYTES = 30
"""Bytes that Adam with FP32 states moves per parameter."""
KERNEL_S = 20e-6
KERNELS = 60
"""Kernels of a layer, forward and backward, and the time in which Python and the driver launch one."""
START_S = 5e-3
"""Time of a step on the host that no work of the GPU hides."""
EXPERT_KERNELS = 8
"""Kernels of a layer for each expert that a rank has: a grouped product is one for each, and has two weights."""
UNHIDDEN = 0.5
"""Part of the exponentials of the scores that matrix products of the same kernel do not hide."""

NAMES = (
    "gemm", "small gemm", "experts", "attention", "elementwise", "routing", "quantize", "weights", "recompute",
    "tensor parallel", "context parallel", "expert parallel", "data parallel", "pipeline", "bubble", "optimizer",
    "host", "scale",
)  # fmt: skip
"""The terms in their order."""

Terms = dict[str, float]


def ideal(case: Case) -> Terms:
    """The seconds of each term of one step of one GPU at rated speed. Raises `UsageError` for an unknown GPU type."""
    gpu = rates(case.gpu_type)
    seconds = dict.fromkeys(NAMES, 0.0)
    seconds |= _compute(case, gpu)
    if case.model.has_shape:
        seconds |= _memory(case, gpu) | _communication(case, gpu)
    busy = sum(seconds.values())
    seconds["data parallel"] = _exposed(_data_parallel(case, gpu), busy)
    seconds["host"] = START_S + _exposed(_launches(case), busy)
    seconds["bubble"] = (case.pp - 1) / (case.vp * case.accumulation) * (busy + seconds["host"])
    seconds["scale"] = 0.01 * math.log2(max(1.0, case.gpus / 8)) * busy
    return seconds


def flops(case: Case) -> tuple[float, float, float, float]:
    """FLOPs of one token in training: matrix products, experts, causal attention scores, logits."""
    model = case.model
    if model.flops_per_token is not None:
        part = 0.5 if model.experts else 0.0
        whole = 1e9 * model.flops_per_token * _trained(case)
        return whole * (0.9 - part), whole * part, whole * 0.1, 0.0
    counts = {"linear": 0.0, "experts": 0.0, "scores": 0.0, "logits": 0.0}
    for term in terms(model, case.seq):
        linear = 6 * case.seq * term.parameters if term.kind == "attention" else term.causal
        kind = {"moe": "experts", "logits": "logits"}.get(term.kind, "linear")
        counts[kind] += linear
        counts["scores"] += term.causal - linear
    share = _trained(case)
    linear, experts, scores, logits = (counts[name] / case.seq for name in ("linear", "experts", "scores", "logits"))
    return linear * share, experts * share, scores, logits * share


def seconds_at_peak(case: Case) -> float:
    """The time of the model FLOPs of one step at the peak of the GPU: no step is shorter."""
    gpu = rates(case.gpu_type)
    linear, experts, scores, logits = flops(case)
    work = (linear + experts) / gpu.peak(case.dtype) + (scores + logits) / gpu.peak("bf16")
    return case.tokens_per_gpu * work / 1e12


def impossible(case: Case, seconds: float) -> str | None:
    """Why a step cannot have taken `seconds` in this configuration; None if it can."""
    least, bubble = seconds_at_peak(case), ideal(case)["bubble"]
    if seconds < least:
        return f"the model FLOPs of a step take {least:.4g} s at the peak of {case.gpu_type}, more than {seconds:.4g} s"
    if seconds < bubble:
        return f"the bubble of PP {case.pp} takes {bubble:.4g} s at the rated speed, more than {seconds:.4g} s"
    return None


def _trained(case: Case) -> float:
    """With LoRA the weights have no gradients: two of three products remain."""
    return 2 / 3 if case.task == "lora" else 1.0


def model_flops(case: Case) -> float:
    """Model FLOPs of one token, causal attention; with LoRA without the products for the frozen weights' gradients."""
    return sum(flops(case))


def _compute(case: Case, gpu: Rates) -> Terms:
    linear, experts, scores, logits = flops(case)
    narrow, wide, tokens = 1e12 * gpu.peak(case.dtype), 1e12 * gpu.peak("bf16"), case.tokens_per_gpu
    grouped = 1e12 * gpu.peak("fp8") if case.dtype in FOUR_BITS else narrow
    seconds = {
        "gemm": tokens * (linear / narrow + logits / wide),
        "experts": tokens * experts / grouped,
        "attention": tokens * scores * FLASH * (1 + _exponentials(case.model, gpu)) / wide,
    }
    seconds["small gemm"] = seconds["gemm"] * SMALL * _smallness(case)
    again = {"none": 0.0, "selective": 0.1, "full": 1.0}[case.recompute]
    return seconds | {"recompute": again * FORWARD * sum(seconds.values())}


def _exponentials(model: Model, gpu: Rates) -> float:
    """Seconds of the exponentials of the scores that nothing hides, over those of the products of the scores."""
    width = (model.key_width + model.rope_width + model.value_width) / 2 if model.kv_rank else model.head
    return UNHIDDEN * (gpu.exponential or 0.0) / (4 * width) if model.has_shape and model.heads else 0.0


def _smallness(case: Case) -> float:
    """Sum of the reciprocals of the sides of a typical matrix product of one rank."""
    hidden, tokens = case.model.hidden, case.mbs * case.seq / case.cp
    return 1 / hidden + case.tp / (3 * hidden) + 1 / tokens


def _memory(case: Case, gpu: Rates) -> Terms:
    model, tokens, speed = case.model, case.tokens_per_gpu, 1e9 * gpu.memory
    per_hidden, per_ffn = ACTIVATION_BYTES
    width = model.mlp_layers * model.ffn + model.moe_layers * (model.top_k * model.moe_ffn + model.shared_ffn)
    inner = model.ssm_layers * model.ssm_heads * 64 * 2
    moved = per_hidden * model.layers * model.hidden + per_ffn * (width + inner)
    routed = 40 * model.moe_layers * model.top_k * (model.latent or model.hidden)
    cast = QUANTIZE_BYTES * (model.layers * 4 * model.hidden + width) if gpu.peak(case.dtype) > gpu.peak("bf16") else 0
    dense, expert = local_parameters(case)
    return {
        "elementwise": tokens * moved / speed,
        "routing": tokens * routed / speed,
        "quantize": tokens * cast / speed,
        "weights": 14 * case.accumulation * (dense + expert) / speed,
        "optimizer": OPTIMIZER_BYTES * (dense / (case.dp * case.cp) + expert / _expert_dp(case)) / speed,
    }


def _communication(case: Case, gpu: Rates) -> Terms:
    model, tokens = case.model, case.tokens_per_gpu
    sharded = model.mixers + (model.mlp_layers if model.mlp_layers else 0) + (model.moe_layers if case.etp > 1 else 0)
    tensor = 4 * sharded * model.hidden * 2 * (case.tp - 1)
    keys = (model.kv_rank + model.rope_width) if model.kv_rank else 2 * model.groups * model.head
    context = 6 * model.mixers * keys * (case.cp - 1)
    across = 8 * model.moe_layers * (model.latent or model.hidden) * min(model.top_k, case.ep) * (1 - 1 / case.ep)
    activations = 4 * case.mbs * case.seq * model.hidden / (case.cp * case.tp)
    hops = 2 * case.accumulation * case.vp * activations if case.pp > 1 else 0
    return {
        "tensor parallel": tokens * tensor / _speed(gpu, case.tp),
        "context parallel": tokens * context / _speed(gpu, case.tp * case.cp),
        "expert parallel": tokens * across / _speed(gpu, case.ep * case.etp),
        "pipeline": hops / (1e9 * gpu.network),
    }


def _speed(gpu: Rates, ranks: int) -> float:
    """Bytes per second and GPU of a collective over neighbouring ranks: the part that leaves NVLink has the network."""
    domain = gpu.domain or 8
    outside = 0.0 if ranks <= domain else 1 - domain / ranks
    return 1e9 / (outside / gpu.network + (1 - outside) / gpu.link)


def local_parameters(case: Case) -> tuple[float, float]:
    """Parameters of one pipeline stage and tensor-parallel rank: (those of all layers but experts, experts)."""
    layers = terms(case.model, case.seq)
    everything = sum(term.parameters for term in layers)
    routed = expert_parameters(case.model)
    return (everything - routed) / (case.tp * case.pp), routed / (case.ep * case.etp * case.pp)


def expert_parameters(model: Model) -> float:
    """Parameters of all routed experts."""
    matrices = 3 if model.gated else 2
    predicting = min(1, model.mtp_layers) if model.mtp_repeated else model.mtp_layers
    count = (model.moe_layers + predicting) * model.experts
    return float(count * matrices * (model.latent or model.hidden) * model.moe_ffn)


def _expert_dp(case: Case) -> float:
    return max(1.0, case.gpus / (case.ep * case.etp * case.pp))


def _data_parallel(case: Case, gpu: Rates) -> float:
    """Seconds of gradients and parameters over data parallelism, as if nothing hid them."""
    if not case.model.has_shape or case.task == "lora":
        return 0.0
    dense, expert = local_parameters(case)
    passes = case.accumulation if case.fsdp else 1.0
    size = (4 + 4 if case.fsdp else 4 + 2) * passes
    replicas, copies = case.dp * case.cp, _expert_dp(case)
    return size * (
        dense * (1 - 1 / replicas) / _ring_speed(gpu, replicas, case.tp)
        + expert * (1 - 1 / copies) / _ring_speed(gpu, copies, case.ep * case.etp)
    )


def _ring_speed(gpu: Rates, ranks: float, apart: int) -> float:
    """Bytes per second and GPU of a ring collective over ranks whose numbers are `apart`.

    Rings leave an NVLink domain once and enter it once, through the network of every member that is inside of it.
    """
    inside = max(1.0, (gpu.domain or 8) / apart)
    return 1e9 * (gpu.link if ranks <= inside else min(gpu.link, inside * gpu.network))


def _exposed(seconds: float, busy: float) -> float:
    """The part of a transfer, or of the host's work, that the `busy` GPU does not hide: little if it is short."""
    return seconds * seconds / (seconds + busy) if seconds else 0.0


def _launches(case: Case) -> float:
    """Seconds in which the host launches the kernels of a step. It runs ahead of the GPU as long as that is busy."""
    model = case.model
    kernels = model.layers * KERNELS + model.moe_layers * EXPERT_KERNELS * model.experts / case.ep
    return case.accumulation / case.pp * kernels * KERNEL_S
