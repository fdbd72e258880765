"""Model FLOPs of one sample, by the formula that the MaxText Llama 2 recipe prints."""

from __future__ import annotations

from llmbx.flops import Flops
from llmbx.model import Convention, ModelShape

FORMULA = "S(12Lh²(1+g/a+S/h)+18Lfhk+6LhE+6Vh), version 1"
"""S tokens, L layers, hidden size h, g query groups, a heads, FFN f, k of E experts a token, vocabulary V.

The full convention counts the S x S attention matrix (the recipe, and MaxText until 2025-07); the causal one half of
it: S/2h instead of S/h (MaxText since). 6LhE is the router of a mixture of experts, which MaxText counts; a dense model
has none. The formula takes heads x head width = h, and a gated FFN (three matrices).
"""


def compute(model: ModelShape) -> Flops:
    """FLOPs of one sample (forward and backward) under both conventions; `parts` are those of one token, in full."""
    parts = {"attention": attention(model, "full"), "mlp": mlp(model), "embedding": embedding(model)}
    if model.experts:
        parts["router"] = 6.0 * model.layers * model.hidden_size * model.experts
    rest = sum(parts.values()) - parts["attention"]
    return Flops(
        full=model.sequence_length * (parts["attention"] + rest),
        causal=model.sequence_length * (attention(model, "causal") + rest),
        formula=FORMULA,
        parts=parts,
    )


def attention(model: ModelShape, convention: Convention) -> float:
    """Attention FLOPs of one token: projections, scores and values, in all layers."""
    seen = model.sequence_length if convention == "full" else model.sequence_length / 2
    per_head = model.hidden_size * (model.heads + model.query_groups) + seen * model.heads
    return 12 * model.layers * model.hidden_size * per_head / model.heads


def mlp(model: ModelShape) -> float:
    """FLOPs of one token in the feed-forward parts of all layers."""
    width = model.moe_ffn_hidden_size or model.ffn_hidden_size if model.experts else model.ffn_hidden_size
    return 18.0 * model.layers * width * model.hidden_size * (model.experts_per_token or 1)


def embedding(model: ModelShape) -> float:
    """FLOPs of one token in the output embedding."""
    return 6.0 * model.vocab_size * model.hidden_size
