"""The FLOPs formula compared with the recipe's worked example and with MaxText's own values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.model import ModelShape, RunSpec
from llmbx_maxtext.flops import compute

Spec = Callable[..., RunSpec]

LLAMA_2_70B = ModelShape(
    layers=80, hidden_size=8192, ffn_hidden_size=28672, heads=64, query_groups=8, vocab_size=32000, sequence_length=4096
)


def test_the_worked_example_to_the_last_digit() -> None:
    flops = compute(LLAMA_2_70B)
    assert flops.parts == {"attention": 104_689_827_840, "mlp": 338_228_674_560, "embedding": 1_572_864_000}
    assert flops.full == 4096 * (104_689_827_840 + 338_228_674_560 + 1_572_864_000)
    assert f"{flops.full:.2E}" == "1.82E+15"


def test_the_causal_convention_counts_half_the_scores() -> None:
    # 4096 x (12 x 80 x 8192^2 x (1 + 8/64 + 4096/8192/2) + 338,228,674,560 + 1,572,864,000)
    assert compute(LLAMA_2_70B).causal == 1_754_665_939_107_840


def test_maxtext_of_2024_counted_in_full() -> None:
    """The recipe's log line has 460.480 TFLOP/s at 7.908 s with two samples per device."""
    printed = 460.480
    full = 2 * compute(LLAMA_2_70B).full / 7.908 / 1e12
    causal = 2 * compute(LLAMA_2_70B).causal / 7.908 / 1e12
    assert full == pytest.approx(printed, rel=1e-4) and causal < 0.97 * printed


def test_the_catalogs_shape_is_that_of_the_example(cluster: Spec) -> None:
    assert cluster("bf16", 64).model == LLAMA_2_70B


def test_maxtext_today_counts_causally(spec: Spec) -> None:
    """MaxText 0.2.5 printed `TFLOP/s/device: 1.071, Tokens/s/device: 46946.635` for this mini (per token)."""
    found = spec("llama2", size="mini", gpus=2)
    assert found.flops_convention == "causal"
    printed = 1.071e12 / 46946.635
    assert compute(found.model).causal / found.model.sequence_length == pytest.approx(printed, rel=5e-4)


# What MaxText 0.2.5 itself computed (`calculate_tflops_training_per_device`, in TFLOP for two samples).
@pytest.mark.parametrize(
    ("name", "size", "theirs"), [("llama2", "70b", 3509.33187821568), ("mixtral", "mini", 0.001009778688)]
)
def test_maxtexts_own_formula_is_the_causal_one(spec: Spec, name: str, size: str, theirs: float) -> None:
    run = spec(name, size=size, gpu_type="h100", gpus=64, dtype="bf16")
    assert 2 * compute(run.model).causal / 1e12 == pytest.approx(theirs, rel=1e-12)


def test_a_mixture_counts_its_experts_and_its_router(spec: Spec) -> None:
    model = spec("mixtral").model
    flops = compute(model)
    assert flops.parts["mlp"] == 18 * model.layers * 256 * 128 * 2
    assert flops.parts["router"] == 6 * model.layers * 128 * 8
    dense = compute(model.replace(experts=None, experts_per_token=None, moe_ffn_hidden_size=None))
    assert "router" not in dense.parts and flops.formula == dense.formula


SIZES = st.integers(1, 64)


@given(layers=SIZES, heads=SIZES, groups=SIZES, width=SIZES, ffn=SIZES, vocabulary=SIZES, length=SIZES)
def test_the_parts_make_the_whole(
    layers: int, heads: int, groups: int, width: int, ffn: int, vocabulary: int, length: int
) -> None:
    model = ModelShape(
        layers=layers, hidden_size=heads * width, ffn_hidden_size=ffn, heads=heads, query_groups=groups,
        vocab_size=vocabulary, sequence_length=length,
    )  # fmt: skip
    flops = compute(model)
    assert flops.full == pytest.approx(length * sum(flops.parts.values()))
    scores = 12 * layers * model.hidden_size * length * length
    assert flops.full - flops.causal == pytest.approx(scores / 2)
