"""The architectures, as fields of Megatron-Core's model config. Pure: values are numbers, text and lists.

Sizes and what makes an architecture that architecture come from the specification, in the words of the catalog; here
they get the names that Megatron gives them. Lengths are in tokens, widths in elements.
"""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]

WORDS = {
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
"""The catalog's words for an architecture that are a field of Megatron's as they stand."""

KNOWN = WORDS.keys() | {"no_rope_every"}
"""All words that are understood here."""

ROPE_SCALING_FACTOR = 8.0
"""How far Llama 3.1 stretches its rotary positions."""


def architecture(words: Fields, shape: Fields) -> Fields:
    """The model fields of an architecture (`words`, all among `KNOWN`) at the sizes of `shape`."""
    fields = {**decoder(shape), **{WORDS[word]: value for word, value in words.items() if word in WORDS}}
    if words.get("rope_scaling"):
        fields["rope_scaling_factor"] = ROPE_SCALING_FACTOR
    if words.get("no_rope_every"):
        fields["no_rope_freq"] = every(words["no_rope_every"], shape["layers"])
    return {**fields, **experts(shape)} if shape.get("experts") else fields


def decoder(shape: Fields) -> Fields:
    """What all of them are: pre-norm decoders with RMSNorm, gated MLP, grouped queries and rotary positions.

    Maverick's chunked attention (8,192 tokens a chunk) is the whole sequence at the benchmark's length: left out.
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
    """A mixture of experts: how many, how wide, in which layers, and tokens exchanged all-to-all."""
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
    """A 1 for every `period`-th layer, 0 for the others."""
    return [int((number + 1) % period == 0) for number in range(layers)]
