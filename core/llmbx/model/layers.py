"""The shape of a model, and what each kind of its layers costs in FLOPs and parameters.

A term is what one kind of layer costs: `Term`s of a model add up to its `Flops`. A matrix product of m x k with k x n
has 2mkn operations; the backward pass has two for each of the forward pass, so that training takes three times as many.
Additions, norms, activations and the softmax are not counted, as in the formulas of the recipes.

Of the scores of attention, `full` counts every pair of positions that the mask's shape contains, `causal` half of them.

`ModelShape.layer_terms` covers what `Flops.transformer` does not: heads that are not hidden size /
heads wide, sliding windows, latent attention, first layers without experts, latent experts, multi-
token prediction, and hybrids with Mamba-2.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Literal

from .base import Value

_DETAILS = ("head_width", "kv_rank", "windowed_layers", "ssm_layers", "latent_size", "dense_layers", "mtp_layers")
"""Fields that only the sum over all layers takes into account (`layerwise`)."""

TRAINING = 3
"""Operations of forward and backward pass, relative to those of the forward pass."""

LayerKind = Literal["attention", "mlp", "moe", "ssm", "conv", "embedding", "logits", "other"]


class ModelShape(Value, frozen=True):
    """Dimensions of a transformer. Lengths are in tokens, widths in elements."""

    layers: int
    """Number of layers."""
    hidden_size: int
    """Hidden size."""
    ffn_hidden_size: int
    """Width of the feed-forward part of a dense layer that is active per token."""
    heads: int
    """Number of attention heads."""
    query_groups: int
    """Number of key/value heads."""
    vocab_size: int
    """Vocabulary size in tokens."""
    sequence_length: int
    """Tokens per sample."""
    experts: int | None = None
    """Experts per layer; None for a dense model."""
    experts_per_token: int | None = None
    """Active experts per token."""
    moe_ffn_hidden_size: int | None = None
    """Width of one expert, if different from `ffn_hidden_size`."""
    shared_ffn_hidden_size: int | None = None
    """Width of the shared expert."""
    moe_layer_every: int | None = None
    """Interval of the layers that have experts: every n-th layer."""
    dense_layers: int | None = None
    """First layers without experts."""
    latent_size: int | None = None
    """Width of the tokens that experts get, if they get a projection of the hidden state."""
    gated: bool | None = None
    """Whether feed-forward layers and experts have a gate (three matrices), as SwiGLU has; None: they have."""
    tied: bool | None = None
    """Whether the output layer has the weights of the input embedding; None: it has its own."""
    head_width: int | None = None
    """Width of an attention head, if not hidden size / heads."""
    attention_window: int | None = None
    """Positions that a token sees in layers with sliding-window attention."""
    windowed_layers: int | None = None
    """Number of layers with sliding-window attention."""
    kv_rank: int | None = None
    """Width of the compressed keys and values; with it, attention is multi-head latent attention."""
    q_rank: int | None = None
    """Width of the compressed queries of latent attention."""
    key_width: int | None = None
    """Width of a head's own part of the keys in latent attention."""
    rope_width: int | None = None
    """Width of the part of the keys with position encoding, which all heads share, in latent attention."""
    value_width: int | None = None
    """Width of the values of a head in latent attention."""
    mtp_layers: int | None = None
    """Layers for multi-token prediction that a step computes; a layer that is used twice counts twice."""
    mtp_repeated: bool | None = None
    """Whether the layers for multi-token prediction are one layer that is applied several times."""
    attention_layers: int | None = None
    """Layers with attention in a hybrid, in which each layer is Mamba, attention or feed-forward."""
    ssm_layers: int | None = None
    """Mamba-2 layers of a hybrid."""
    ssm_heads: int | None = None
    """Heads of a Mamba-2 layer."""
    ssm_head_width: int | None = None
    """Width of a head of a Mamba-2 layer."""
    ssm_state: int | None = None
    """State size of a Mamba-2 layer."""
    ssm_groups: int | None = None
    """Groups of a Mamba-2 layer, whose heads share the input and output projections of the state."""

    @property
    def is_detailed(self) -> bool:
        """Whether it states something that only the sum over all layers takes into account."""
        return any(getattr(self, name) is not None for name in _DETAILS)

    def layer_terms(self, tokens: int) -> tuple[Term, ...]:
        """What each kind of layer costs for one sample of `tokens`; layers for multi-token prediction are counted.

        A layer for multi-token prediction that is applied several times has its parameters once.
        """
        parts = _terms(self, tokens)
        if not self.mtp_repeated or (self.mtp_layers or 0) < 2:
            return parts
        once = _terms(self.replace(mtp_layers=1), tokens)
        return tuple(term.replace(parameters=first.parameters) for term, first in zip(parts, once, strict=True))


class Term(Value, frozen=True):
    """What all layers of one kind cost: operations of one sample, forward and backward, and parameters."""

    kind: LayerKind
    """The kind of layer."""
    name: str
    """What distinguishes it from other terms of the model."""
    full: float
    """FLOPs of one sample with every pair of positions in the attention."""
    causal: float
    """FLOPs of one sample with half of the pairs."""
    parameters: float
    """Parameters, of all experts in a mixture of experts."""
    layers: int = 1
    """Number of layers of this kind."""
    source: str = ""
    """Where the formula is from, if it is more than counting matrix products."""
    active: float | None = None
    """Parameters that one token uses; None if it uses all."""
    all_pairs: float | None = None
    """FLOPs of one sample with all S x S pairs, also those outside of a window or chunk; None: the same as `full`."""

    @property
    def active_parameters(self) -> float:
        """Parameters that one token uses: those of its experts only."""
        return self.parameters if self.active is None else self.active

    @staticmethod
    def attention(
        tokens: int, hidden: int, heads: int, groups: int | None = None, head_width: int | None = None, *,
        layers: int = 1, window: int | None = None, chunk: int | None = None, name: str = "attention",
    ) -> Term:  # fmt: skip
        """Attention with `heads` query heads and `groups` key and value heads (default: as many) of `head_width`.

        With `window` a token sees that many positions up to its own; with `chunk` those of its own chunk.
        """
        width = head_width or hidden // heads
        weights = hidden * width * (2 * heads + 2 * (groups or heads))
        pairs = _pairs(tokens, window, chunk)
        term = _term("attention", name, tokens * 2 * weights, 4 * heads * width, pairs, weights, layers)
        outside = tokens**2 - pairs[0]
        return term.replace(all_pairs=term.full + TRAINING * layers * 4 * heads * width * outside) if outside else term

    @staticmethod
    def latent_attention(
        tokens: int, hidden: int, heads: int, *, kv_rank: int, q_rank: int | None = None, key_width: int,
        rope_width: int, value_width: int, layers: int = 1, name: str = "latent attention",
    ) -> Term:  # fmt: skip
        """Multi-head latent attention: keys and values come from `kv_rank` numbers, queries from `q_rank` if set.

        A key has `key_width` numbers of its own and `rope_width` that all heads share (DeepSeek-V2, section 2.1).
        """
        query = key_width + rope_width
        weights = hidden * heads * query if q_rank is None else hidden * q_rank + q_rank * heads * query
        weights += hidden * (kv_rank + rope_width) + kv_rank * heads * (key_width + value_width)
        weights += heads * value_width * hidden
        per_pair, pairs = 2 * heads * (query + value_width), _pairs(tokens, None, None)
        return _term(
            "attention", name, tokens * 2 * weights, per_pair, pairs, weights, layers, "DeepSeek-V2, section 2.1"
        )

    @staticmethod
    def mlp(tokens: int, hidden: int, width: int, *, gated: bool = True, layers: int = 1, name: str = "mlp") -> Term:
        """A feed-forward layer: three matrices if it is gated (SwiGLU, GeGLU), else two."""
        weights = (3 if gated else 2) * hidden * width
        return _term("mlp", name, tokens * 2 * weights, 0, (0, 0), weights, layers)

    @staticmethod
    def mixture(
        tokens: int, hidden: int, width: int, experts: int, active: int, *, shared_width: int = 0, gated: bool = True,
        router_width: int | None = None, layers: int = 1, name: str = "experts",
    ) -> Term:  # fmt: skip
        """Experts of this width (each token takes `active` of them), their router, and a shared expert that all take.

        `router_width` is the width of the state that the router reads, if it is not `hidden`.
        """
        matrices = 3 if gated else 2
        router, shared, expert = (
            (router_width or hidden) * experts,
            matrices * hidden * shared_width,
            matrices * hidden * width,
        )
        used = router + shared + active * expert
        term = _term("moe", name, tokens * 2 * used, 0, (0, 0), router + shared + experts * expert, layers)
        return term.replace(active=float(layers * used))

    @staticmethod
    def mamba2(
        tokens: int, hidden: int, state: int, *, heads: int, head_width: int = 64, groups: int = 1, kernel: int = 4,
        layers: int = 1, name: str = "mamba",
    ) -> Term:  # fmt: skip
        """A Mamba-2 layer: projections, convolution, and the scan with 7 operations per channel and state.

        The scan's operations depend on its kernel; 7 is the usual estimate, and the scan a small part of the layer.
        """
        inner, mixed = heads * head_width, heads * head_width + 2 * groups * state
        weights = hidden * (inner + mixed + heads) + inner * hidden
        forward = tokens * (2 * weights + 2 * kernel * mixed + 7 * inner * state)
        return _term("ssm", name, forward, 0, (0, 0), weights + kernel * mixed, layers, "scan: 7 per channel and state")

    @staticmethod
    def convolution(
        positions: int, kernel: int, inputs: int, outputs: int, *, groups: int = 1, layers: int = 1, name: str = "conv"
    ) -> Term:
        """A convolution with `kernel` taps at `positions` places of the output, for example patches of an image."""
        weights = kernel * inputs * outputs // groups
        return _term("conv", name, positions * 2 * weights, 0, (0, 0), weights, layers)

    @staticmethod
    def embedding(hidden: int, vocabulary: int, name: str = "embedding") -> Term:
        """The input embedding: a table that is looked up, so parameters and no operations."""
        return _term("embedding", name, 0, 0, (0, 0), hidden * vocabulary, 1)

    @staticmethod
    def logits(tokens: int, hidden: int, vocabulary: int, *, tied: bool = False, name: str = "logits") -> Term:
        """The output layer; `tied` if it has the weights of the input embedding."""
        weights = hidden * vocabulary
        return _term("logits", name, tokens * 2 * weights, 0, (0, 0), 0 if tied else weights, 1)


def _term(
    kind: LayerKind, name: str, forward: float, per_pair: float, pairs: tuple[float, float], weights: float,
    layers: int, source: str = "",
) -> Term:  # fmt: skip
    """`forward` are the operations of one layer but for the pairs of positions: (all, those of a causal mask)."""
    full, causal = (TRAINING * layers * (forward + per_pair * count) for count in pairs)
    return Term(
        kind=kind, name=name, full=full, causal=causal, parameters=layers * weights, layers=layers, source=source
    )


def _pairs(tokens: int, window: int | None, chunk: int | None) -> tuple[float, float]:
    """Pairs of positions in a layer: those of the shape of its mask, and those that a causal mask leaves."""
    if window is not None and chunk is not None:
        raise ValueError("an attention has a window or chunks, not both")
    if chunk is not None:
        whole, remainder = divmod(tokens, chunk)
        full = whole * chunk**2 + remainder**2
        return full, full / 2
    seen = min(window or tokens, tokens)
    return tokens * seen, seen * (tokens - seen / 2)


FORMULA = "sum of the matrix products of all layers, version 1"


def _terms(model: ModelShape, tokens: int) -> tuple[Term, ...]:
    """The terms, with parameters of each layer for multi-token prediction.

    Such a layer has attention, a feed-forward part like that of the last layer, a projection of two hidden states to
    one, and the output layer once more.
    """
    hidden, extra, gated = model.hidden_size, model.mtp_layers or 0, model.gated is not False
    parts = list(_attention(model, tokens))
    if model.ssm_layers:
        parts.append(
            Term.mamba2(
                tokens, hidden, model.ssm_state or 128, heads=model.ssm_heads or 1,
                head_width=model.ssm_head_width or 64, groups=model.ssm_groups or 1, layers=model.ssm_layers,
            )
        )  # fmt: skip
    dense, moe = feed_forward_layers(model)
    if not model.experts:
        dense += extra
    if dense:
        parts.append(Term.mlp(tokens, hidden, model.ffn_hidden_size, gated=gated, layers=dense))
    if moe:
        parts.extend(_experts(model, tokens, moe + extra))
    parts.append(Term.embedding(hidden, model.vocab_size))
    parts.append(Term.logits(tokens, hidden, model.vocab_size, tied=bool(model.tied)))
    if extra:
        parts.append(Term.logits(tokens * extra, hidden, model.vocab_size, tied=True, name="mtp logits"))
        parts.append(Term.mlp(tokens, 2 * hidden, hidden // 2, gated=False, layers=extra, name="mtp projection"))
    return tuple(parts)


def feed_forward_layers(model: ModelShape) -> tuple[int, int]:
    """The numbers of layers with a dense feed-forward part and with experts, without those of multi-token prediction.

    In a hybrid, the layers that are neither Mamba nor attention.
    """
    count = model.layers
    if model.ssm_layers:
        count -= model.ssm_layers + (model.attention_layers or 0)
    if not model.experts:
        return count, 0
    moe = (count - (model.dense_layers or 0)) // (model.moe_layer_every or 1)
    return count - moe, moe


def _attention(model: ModelShape, tokens: int) -> Iterator[Term]:
    mixers = model.layers if model.attention_layers is None else model.attention_layers
    count = mixers + (model.mtp_layers or 0)
    if model.kv_rank:
        yield Term.latent_attention(
            tokens, model.hidden_size, model.heads, kv_rank=model.kv_rank, q_rank=model.q_rank,
            key_width=model.key_width or 0, rope_width=model.rope_width or 0, value_width=model.value_width or 0,
            layers=count,
        )  # fmt: skip
        return
    plain = functools.partial(
        Term.attention, tokens, model.hidden_size, model.heads, model.query_groups, model.head_width
    )
    windowed = model.windowed_layers or 0
    if count > windowed:
        yield plain(layers=count - windowed)
    if windowed:
        yield plain(layers=windowed, window=model.attention_window, name="windowed attention")


def _experts(model: ModelShape, tokens: int, count: int) -> Iterator[Term]:
    """The experts.

    Those with a latent width work on a projection of the hidden state; their router and the shared expert on the state.
    """
    hidden, experts, active = model.hidden_size, model.experts or 0, model.experts_per_token or 1
    width, shared = model.moe_ffn_hidden_size or model.ffn_hidden_size, model.shared_ffn_hidden_size or 0
    gated = model.gated is not False
    mixture = functools.partial(Term.mixture, tokens, gated=gated, layers=count)
    if not model.latent_size:
        yield mixture(hidden, width, experts, active, shared_width=shared)
        return
    yield mixture(model.latent_size, width, experts, active, router_width=hidden)
    yield Term.mlp(tokens, hidden, shared, gated=gated, layers=count, name="shared expert")
    yield Term.mlp(tokens, hidden, model.latent_size, gated=False, layers=count, name="latent projections")
