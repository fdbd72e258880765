"""FLOPs and parameters of a decoder, layer by layer, from its shape.

The formula covers what `Flops.transformer` does not: heads that are not hidden size / heads wide, sliding windows,
latent attention, first layers without experts, latent experts, multi-token prediction, and hybrids with Mamba-2.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .layers import Term

if TYPE_CHECKING:
    from .workload import ModelShape

FORMULA = "sum of the matrix products of all layers, version 1"


def terms(model: ModelShape, tokens: int) -> tuple[Term, ...]:
    """What each kind of layer costs for one sample of `tokens`; layers for multi-token prediction are counted.

    A layer for multi-token prediction that is applied several times has its parameters once.
    """
    parts = _terms(model, tokens)
    if not model.mtp_repeated or (model.mtp_layers or 0) < 2:
        return parts
    once = _terms(model.replace(mtp_layers=1), tokens)
    return tuple(term.replace(parameters=first.parameters) for term, first in zip(parts, once, strict=True))


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
