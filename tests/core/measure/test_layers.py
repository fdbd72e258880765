"""FLOPs by kind of layer; tests/integration/test_nemo_entry.py compares them with what PyTorch counts."""

from __future__ import annotations

import pytest

from llmbx.model import ModelShape
from llmbx.model.flops import Flops
from llmbx.model.layers import Term


def pairs(tokens: int, seen: int, chunk: int | None = None) -> int:
    """The pairs of positions that a causal mask with a window or chunks leaves, counted one by one."""
    return sum(
        1
        for at in range(tokens)
        for other in range(at + 1)
        if at - other < seen and (chunk is None or at // chunk == other // chunk)
    )


def test_a_transformer_is_the_sum_of_its_layers() -> None:
    shape = ModelShape(
        layers=3, hidden_size=64, ffn_hidden_size=96, heads=8, query_groups=2, vocab_size=500, sequence_length=128
    )
    whole = Flops.transformer(shape, "one")
    summed = Flops.total(
        [Term.attention(128, 64, 8, 2, layers=3), Term.mlp(128, 64, 96, layers=3), Term.logits(128, 64, 500)], "two"
    )
    assert (summed.full, summed.causal) == (pytest.approx(whole.full), pytest.approx(whole.causal))
    assert [term.name for term in summed.terms] == ["attention", "mlp", "logits"]


@pytest.mark.parametrize(
    ("window", "chunk"), [(None, None), (16, None), (64, None), (200, None), (None, 16), (None, 24)]
)
def test_pairs_of_positions_are_counted(window: int | None, chunk: int | None) -> None:
    """The convention counts half of a square, S²/2, where a mask leaves S(S+1)/2."""
    found = Term.attention(64, 8, 1, layers=1, window=window, chunk=chunk)
    weights = 3 * 64 * 2 * 8 * 8 * 4
    exact = pairs(64, window or 64, chunk)
    rounded = 32 if chunk else min(window or 64, 64) / 2
    assert (found.causal - weights) / (3 * 4 * 8) == pytest.approx(exact - rounded)
    assert found.full >= found.causal > weights


def test_a_window_as_long_as_the_text_is_no_window() -> None:
    assert Term.attention(64, 8, 2, window=64).full == Term.attention(64, 8, 2).full
    assert Term.attention(64, 8, 2, window=64).causal == Term.attention(64, 8, 2, chunk=64).causal
    with pytest.raises(ValueError, match="a window or chunks, not both"):
        Term.attention(64, 8, 2, window=8, chunk=8)


def test_published_sizes() -> None:
    """Parameters as the model cards and papers give them."""
    s, h, v = 4096, 7168, 129280
    deepseek = [
        Term.embedding(h, v), Term.logits(s, h, v),
        Term.latent_attention(
            s, h, 128, kv_rank=512, q_rank=1536, key_width=128, rope_width=64, value_width=128, layers=61
        ),
        Term.mlp(s, h, 18432, layers=3), Term.mixture(s, h, 2048, 256, 8, shared_width=2048, layers=58),
    ]  # fmt: skip
    assert sum(term.parameters for term in deepseek) == pytest.approx(671e9, rel=0.002)
    s, h, v = 8192, 8192, 128256
    llama = [
        Term.embedding(h, v),
        Term.attention(s, h, 64, 8, layers=80),
        Term.mlp(s, h, 28672, layers=80),
        Term.logits(s, h, v),
    ]
    assert sum(term.parameters for term in llama) == pytest.approx(70.55e9, rel=0.001)
    mamba = [
        Term.embedding(2560, 50288),
        Term.mamba2(2048, 2560, 128, heads=80, layers=64),
        Term.logits(2048, 2560, 50288, tied=True),
    ]
    assert sum(term.parameters for term in mamba) == pytest.approx(2.7e9, rel=0.01)


def test_a_mamba_layer_is_its_projections_convolution_and_scan() -> None:
    found = Term.mamba2(10, 8, 4, heads=2, head_width=8, groups=1, kernel=4, layers=2)
    inner, mixed = 16, 16 + 2 * 4
    projections, scan = 2 * (8 * (inner + mixed + 2) + inner * 8), 7 * inner * 4
    assert found.full == found.causal == 2 * 3 * 10 * (projections + scan + 2 * 4 * mixed)


def test_terms_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="two terms have the same name"):
        Flops.total([Term.mlp(8, 8, 8), Term.mlp(8, 8, 16)], "twice")
