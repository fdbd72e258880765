"""Model FLOPs of one sample, by the formula that the recipes print."""

from __future__ import annotations

from llmbx.flops import Flops
from llmbx.model import Convention, ModelShape

FORMULA = "S(12Lh²(1+g/a+S/h)+18Lfhk+6Vh), version 1"
"""S tokens, L layers, hidden size h, g query groups, a heads, FFN f, k experts a token, vocabulary V.

The full convention counts the S x S attention matrix; the causal one half of it: S/2h instead of S/h. Source: Llama 3.1
recipe (NeMo 2) for full, Grok-1 recipe for causal, where the mixture of experts multiplies the FFN by its k experts.
The formula takes heads x head width = h, and a gated FFN (three matrices), in every layer.
"""


def compute(model: ModelShape) -> Flops:
    """FLOPs of one sample (forward and backward) under both conventions; `parts` are those of one token, in full.

    `ffn_hidden_size` is the width active in every layer of a model that alternates dense and expert layers (Maverick:
    16384 dense, or 8192 routed + 8192 shared), with one expert a token.
    """
    parts = {"attention": attention(model, "full"), "mlp": mlp(model), "embedding": embedding(model)}
    rest = parts["mlp"] + parts["embedding"]
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
    return 18.0 * model.layers * model.ffn_hidden_size * model.hidden_size * (model.experts_per_token or 1)


def embedding(model: ModelShape) -> float:
    """FLOPs of one token in the output embedding."""
    return 6.0 * model.vocab_size * model.hidden_size
