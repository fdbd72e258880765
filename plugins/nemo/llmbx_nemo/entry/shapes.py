"""Model architectures as fields of Megatron-Core's model configuration.

The specification has the sizes and the architecture in the names of the catalog; here these are translated to
Megatron's names. The values are numbers, strings and lists. Lengths are in tokens, widths in elements.
"""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]

RENAMED = {
    "activation": "activation_func",
    "norm_epsilon": "layernorm_epsilon",
    "rotary_base": "rotary_base",
    "rotary_interleaved": "rotary_interleaved",
    "rope_scaling": "rope_scaling",
    "router_score": "moe_router_score_function",
    "router_pre_softmax": "moe_router_pre_softmax",
    "router_scales_input": "moe_apply_probs_on_input",
    "router_aux_loss": "moe_aux_loss_coeff",
}
"""Megatron's field for each architecture key of the catalog whose value is passed on unchanged."""

KNOWN = RENAMED.keys() | {"no_rope_every", "hub"}
"""All supported architecture keys of the catalog. `hub` names a model of the Hugging Face hub with the architecture."""

ROPE_SCALING_FACTOR = 8.0
"""Llama 3.1's factor of RoPE scaling."""


def architecture(keys: Fields, shape: Fields) -> Fields:
    """Return the model fields for the catalog's architecture keys (all in `KNOWN`) and the sizes in `shape`."""
    fields = {**decoder(shape), **{RENAMED[key]: value for key, value in keys.items() if key in RENAMED}}
    if keys.get("rope_scaling"):
        fields["rope_scaling_factor"] = ROPE_SCALING_FACTOR
    if keys.get("no_rope_every"):
        fields["no_rope_freq"] = every(keys["no_rope_every"], shape["layers"])
    return {**fields, **experts(shape)} if shape.get("experts") else fields


def decoder(shape: Fields) -> Fields:
    """Return the fields that all models share: pre-norm decoders with RMSNorm, gated MLP, grouped queries and RoPE.

    Maverick's chunked attention (8,192 tokens per chunk) is left out: at the benchmark's length one chunk is the whole
    sequence.
    """
    return {
        "num_layers": shape["layers"],
        "hidden_size": shape["hidden_size"],
        "ffn_hidden_size": shape["ffn_hidden_size"],
        "num_attention_heads": shape["heads"],
        "num_query_groups": shape["query_groups"],
        "kv_channels": shape["hidden_size"] // shape["heads"],
        "seq_length": shape["sequence_length"],
        "normalization": "RMSNorm",
        "gated_linear_unit": True,
        "add_bias_linear": False,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "share_embeddings_and_output_weights": False,
        "position_embedding_type": "rope",
        "rotary_percent": 1.0,
        "make_vocab_size_divisible_by": 128,
    }


def experts(shape: Fields) -> Fields:
    """Return the fields of a mixture of experts: number, widths, layers, and an all-to-all token dispatcher."""
    fields = {
        "num_moe_experts": shape["experts"],
        "moe_router_topk": shape["experts_per_token"],
        "moe_ffn_hidden_size": shape.get("moe_ffn_hidden_size") or shape["ffn_hidden_size"],
        "moe_shared_expert_intermediate_size": shape.get("shared_ffn_hidden_size"),
        "moe_router_load_balancing_type": "aux_loss",
        "moe_token_dispatcher_type": "alltoall",
    }
    period = shape.get("moe_layer_every") or 1
    return fields if period == 1 else {**fields, "moe_layer_freq": every(period, shape["layers"])}


def every(period: int, layers: int) -> list[int]:
    """Return a list with 1 for every `period`-th layer and 0 for the others."""
    return [int((number + 1) % period == 0) for number in range(layers)]
