"""Result type of a framework's FLOPs formula, and the formula for a transformer that most frameworks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .base import Value
from .layers import FORMULA, ModelShape, Term
from .parts import Convention


class Flops(Value, frozen=True):
    """Model FLOPs of one sample (forward and backward pass) under both conventions of counting attention."""

    full: float
    """FLOPs with the full S x S attention matrix; in layers with a window or chunks, with every pair of their shape."""
    causal: float
    """FLOPs with half of the attention matrix, as a causal mask leaves it; of a window, the pairs that both leave."""
    formula: str
    """Name and version of the formula; results are comparable only if they agree."""
    parts: dict[str, float] = {}
    """FLOPs of each term of the formula under the `full` convention, divided by the sequence length, as the recipes'
    worked examples print them.
    """
    terms: tuple[Term, ...] = ()
    """What each kind of layer costs, if the formula is a sum over layers (`Term`)."""
    all_pairs: float | None = None
    """FLOPs of a program that multiplies all S x S pairs in every layer and masks those outside of a window or chunk;
    None: the same as `full`. `llmbx plugins check` compares it with the operations of such a program.
    """

    def by(self, convention: Convention) -> float:
        """FLOPs under one convention."""
        return self.full if convention == "full" else self.causal

    @staticmethod
    def total(terms: Sequence[Term], formula: str) -> Flops:
        """The FLOPs of one sample of a model of these terms. Raises `ValueError` if two terms have the same name."""
        if len({term.name for term in terms}) < len(terms):
            raise ValueError("two terms have the same name")
        return Flops(
            full=sum(term.full for term in terms), causal=sum(term.causal for term in terms), formula=formula,
            terms=tuple(terms), all_pairs=_all_pairs(terms),
        )  # fmt: skip

    @staticmethod
    def layerwise(model: ModelShape) -> Flops:
        """FLOPs of one sample as the sum over the layers of the model (`ModelShape.layer_terms`)."""
        return Flops.total(model.layer_terms(model.sequence_length), FORMULA)

    @staticmethod
    def transformer(
        model: ModelShape, formula: str, *, width: int | None = None, extra: Mapping[str, float] | None = None
    ) -> Flops:
        """FLOPs of one sample of a decoder by S(12Lh²(1+g/a+S/h) + 18Lfhk + 6Vh), under both conventions.

        S tokens, L layers, hidden size h, g query groups, a heads, FFN width f, k experts per token, vocabulary V. The
        `full` convention counts the S x S attention matrix (Llama 2 and older Llama 3.1 recipes), `causal` counts half
        of it: S/2h instead of S/h (Grok-1 recipe). The formula assumes heads x head width = h, and a gated FFN (three
        matrices) in every layer. `formula` is the name and version to report, `width` the FFN width if it differs from
        the model's, `extra` further terms in FLOPs per token.
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
    """FLOPs of one token in the attention of all layers: projections, scores and values."""
    seen = model.sequence_length if convention == "full" else model.sequence_length / 2
    per_head = model.hidden_size * (model.heads + model.query_groups) + seen * model.heads
    return 12 * model.layers * model.hidden_size * per_head / model.heads


def mlp(model: ModelShape, width: int | None = None) -> float:
    """FLOPs of one token in the feed-forward parts of all layers."""
    return 18.0 * model.layers * (width or model.ffn_hidden_size) * model.hidden_size * (model.experts_per_token or 1)


def embedding(model: ModelShape) -> float:
    """FLOPs of one token in the output embedding."""
    return 6.0 * model.vocab_size * model.hidden_size


def _all_pairs(terms: Sequence[Term]) -> float | None:
    if all(term.all_pairs is None for term in terms):
        return None
    return sum(term.full if term.all_pairs is None else term.all_pairs for term in terms)
