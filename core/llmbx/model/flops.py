"""What a framework's FLOPs formula returns, and the formula that most of them share."""

from __future__ import annotations

from collections.abc import Mapping

from .base import Value
from .workload import Convention, ModelShape


class Flops(Value, frozen=True):
    """Model FLOPs of ONE sample (forward and backward, batch 1) under both conventions of counting attention."""

    full: float
    """With the whole S x S matrix."""
    causal: float
    """With the half of it that a causal mask leaves."""
    formula: str
    """The formula and its version, so that two results can be told to be comparable."""
    parts: dict[str, float] = {}
    """The named summands of the `full` convention divided by the sequence length, as the recipes' worked examples
    print.
    """

    def by(self, convention: Convention) -> float:
        """The figure under one convention."""
        return self.full if convention == "full" else self.causal


def transformer(
    model: ModelShape, formula: str, *, width: int | None = None, extra: Mapping[str, float] | None = None
) -> Flops:
    """FLOPs of one sample of a decoder by S(12Lh²(1+g/a+S/h) + 18Lfhk + 6Vh), under both conventions.

    S tokens, L layers, hidden size h, g query groups, a heads, FFN f, k experts a token, vocabulary V. The full
    convention counts the S x S attention matrix (Llama 2 and older Llama 3.1 recipes); the causal one half of it: S/2h
    instead of S/h (Grok-1 recipe). It takes heads x head width = h, and a gated FFN (three matrices)
    in every layer. `formula` is its name and version at the caller's, `width` the FFN's where it is not the model's,
    `extra` what the caller counts beyond it, for one token.
    """
    parts = {"attention": attention(model, "full"), "mlp": mlp(model, width), "embedding": embedding(model)}
    parts |= extra or {}
    rest = sum(parts.values()) - parts["attention"]
    return Flops(
        full=model.sequence_length * (parts["attention"] + rest),
        causal=model.sequence_length * (attention(model, "causal") + rest),
        formula=formula,
        parts=parts,
    )


def attention(model: ModelShape, convention: Convention) -> float:
    """Attention FLOPs of one token: projections, scores and values, in all layers."""
    seen = model.sequence_length if convention == "full" else model.sequence_length / 2
    per_head = model.hidden_size * (model.heads + model.query_groups) + seen * model.heads
    return 12 * model.layers * model.hidden_size * per_head / model.heads


def mlp(model: ModelShape, width: int | None = None) -> float:
    """FLOPs of one token in the feed-forward parts of all layers."""
    return 18.0 * model.layers * (width or model.ffn_hidden_size) * model.hidden_size * (model.experts_per_token or 1)


def embedding(model: ModelShape) -> float:
    """FLOPs of one token in the output embedding."""
    return 6.0 * model.vocab_size * model.hidden_size
