"""FLOPs with the recipes' formula: their worked examples, to the last printed digit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.model import ModelShape, layers
from llmbx.model.flops import attention, embedding, mlp
from llmbx_nemo import flops
from llmbx_nemo.workloads import workloads

LLAMA_8B = ModelShape(
    layers=32, hidden_size=4096, ffn_hidden_size=14336, heads=32, query_groups=8, vocab_size=128256,
    sequence_length=8192,
)  # fmt: skip
GROK = ModelShape(
    layers=64, hidden_size=6144, ffn_hidden_size=32768, heads=48, query_groups=8, vocab_size=128256,
    sequence_length=8192, experts=8, experts_per_token=2,
)  # fmt: skip
MAVERICK = ModelShape(
    layers=48, hidden_size=5120, ffn_hidden_size=16384, heads=40, query_groups=8, vocab_size=202048,
    sequence_length=8192, experts=128, experts_per_token=1, moe_ffn_hidden_size=8192, shared_ffn_hidden_size=8192,
    moe_layer_every=2,
)  # fmt: skip


def test_llama_8b_as_worked_in_its_recipe() -> None:
    result = flops.compute(LLAMA_8B)
    assert result.parts == {"attention": 20_937_965_568, "mlp": 33_822_867_456, "embedding": 3_152_019_456}
    assert f"{result.full:.2E}" == "4.74E+14"


def test_grok_as_worked_in_its_recipe() -> None:
    """The recipe counts causal attention."""
    parts = (attention(GROK, "causal"), mlp(GROK), embedding(GROK))
    assert parts == (53_150_220_288, 463_856_467_968, 4_728_029_184)
    assert f"{flops.compute(GROK).causal:.2E}" == "4.27E+15"


def test_maverick_by_the_formula_of_its_recipe() -> None:
    """Its printed intermediates do not follow from its own formula; its result does."""
    s, layers, h = 8192, 48, 5120
    expected = 12 * s * layers * h**2 * ((1 + 8 / 40 + 0.5 * s / h) + 16384 / h * 1.5 * 1 + 202048 / 2 / layers / h)
    assert flops.compute(MAVERICK).causal == pytest.approx(expected, rel=1e-12)
    assert f"{flops.compute(MAVERICK).causal:.2e}" == "8.92e+14"


@pytest.mark.parametrize(
    ("workload", "size", "full", "causal"),
    [  # computed apart from this code, in fractions, from the text of the formula; six digits
        ("llama3.1", "8b", 4.74422e14, 4.21646e14),
        ("llama3.1", "70b", 3.94391e15, 3.68003e15),
        ("llama3.1", "405b", 2.15075e16, 2.06763e16),
        ("llama4", "400b", 9.90930e14, 8.91973e14),
        ("grok1", "314b", 4.43238e15, 4.27405e15),
    ],
)
def test_the_sizes_of_the_catalog(workload: str, size: str, full: float, causal: float) -> None:
    shape = next(w for w in workloads() if w.name == workload).sizes[size].model
    result = flops.compute(shape)
    assert (result.full, result.causal) == (pytest.approx(full, rel=5e-6), pytest.approx(causal, rel=5e-6))
    assert result.by("full") == result.full and result.by("causal") == result.causal


def test_the_formula_is_named() -> None:
    assert flops.compute(GROK).formula == flops.compute(LLAMA_8B).formula != ""


@given(
    groups=st.integers(1, 8), per_group=st.integers(1, 8), width=st.integers(1, 128), layers=st.integers(1, 128),
    length=st.integers(1, 16384), experts=st.integers(1, 4),
)  # fmt: skip
def test_conventions_differ_by_half_the_attention_matrix(
    groups: int, per_group: int, width: int, layers: int, length: int, experts: int
) -> None:
    heads = groups * per_group
    shape = ModelShape(
        layers=layers, hidden_size=heads * width, ffn_hidden_size=64, heads=heads, query_groups=groups, vocab_size=100,
        sequence_length=length, experts=8, experts_per_token=experts,
    )  # fmt: skip
    result = flops.compute(shape)
    matrix = 12 * layers * heads * width * length * length
    assert result.full - result.causal == pytest.approx(matrix / 2, rel=1e-6)
    assert result.full == pytest.approx(length * sum(result.parts.values()))
    once = flops.compute(shape.replace(experts_per_token=1))
    assert result.parts["mlp"] == experts * once.parts["mlp"]


MODELS = {(w.name, name): size.model for w in workloads() for name, size in w.sizes.items()}


@pytest.mark.parametrize(
    ("workload", "size", "billions"),
    [  # of the model cards, without layers for multi-token prediction
        ("deepseek-v3", "671b", 671.0),
        ("qwen3", "30b-a3b", 30.53),
        ("qwen3", "235b-a22b", 235.1),
        ("gpt-oss", "120b", 116.8),
        ("nemotron3", "30b-a3b", 31.6),
        ("nemotron3", "120b-a12b", 120.67),
        ("nemotron3", "550b-a55b", 549.3),
    ],
)
def test_the_parameters_of_a_model_are_those_of_its_card(workload: str, size: str, billions: float) -> None:
    model = MODELS[workload, size].replace(mtp_layers=None)
    assert sum(term.parameters for term in flops.compute(model).terms) / 1e9 == pytest.approx(billions, rel=1e-3)


@pytest.mark.parametrize(
    ("workload", "size", "billions", "vocab_size"),
    [("gpt-oss", "20b", 20.9, 201088), ("kimi-k2", "1t", 1026, 163840), ("nemotron-h", "56b", 56.3, 131072)],
)
def test_the_parameters_with_the_vocabulary_of_the_card(
    workload: str, size: str, billions: float, vocab_size: int
) -> None:
    """The recipes of gpt-oss 20b and Nemotron-H have another vocabulary than the published model."""
    model = MODELS[workload, size].replace(vocab_size=vocab_size)
    assert sum(term.parameters for term in flops.compute(model).terms) / 1e9 == pytest.approx(billions, rel=1e-3)


@pytest.mark.parametrize(
    ("workload", "size", "billions", "embedding"),
    [  # of the model cards, which count the input embedding or leave it out
        ("deepseek-v3", "671b", 37.0, True),
        ("qwen3", "30b-a3b", 3.3, True),
        ("qwen3", "235b-a22b", 22.0, True),
        ("gpt-oss", "120b", 5.13, False),
        ("nemotron3", "30b-a3b", 3.6, True),
        ("nemotron3", "30b-a3b", 3.2, False),
    ],
)
def test_the_active_parameters_of_a_model_are_those_of_its_card(
    workload: str, size: str, billions: float, embedding: bool
) -> None:
    terms = flops.compute(MODELS[workload, size].replace(mtp_layers=None)).terms
    active = sum(term.active_parameters for term in terms if embedding or term.kind != "embedding")
    assert active / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(("size", "billions"), [("120b-a12b", 123.7), ("550b-a55b", 560.5)])
def test_a_prediction_layer_that_is_applied_twice_has_its_parameters_once(size: str, billions: float) -> None:
    """Megatron-Bridge's recipes of Nemotron 3 set mtp_use_repeated_layer."""
    model = MODELS["nemotron3", size]
    assert sum(term.parameters for term in flops.compute(model).terms) / 1e9 == pytest.approx(billions, abs=0.1)
    twice = model.replace(mtp_repeated=None)
    assert flops.compute(model).causal == flops.compute(twice).causal


def uncounted(model: ModelShape) -> float:
    """FLOPs of a token that Megatron-Bridge leaves out: the router, and in hybrids what joins the predicted states and
    the convolutions.
    """
    extra, hidden = model.mtp_layers or 0, model.hidden_size
    _, moe = layers.feed_forward_layers(model)
    router = 6 * hidden * (model.experts or 0) * (moe + extra)
    if not model.ssm_layers:
        return float(router)
    mixed = (model.ssm_heads or 0) * (model.ssm_head_width or 0) + 2 * (model.ssm_groups or 0) * (model.ssm_state or 0)
    return router + 6 * 2 * hidden**2 * extra + 6 * 4 * mixed * model.ssm_layers


@pytest.mark.parametrize(
    ("workload", "size", "counted"),
    [  # num_floating_point_operations of Megatron-Bridge 0.6.2 per token, executed on the recipe's functions
        ("deepseek-v3", "671b", 259.992950784e9),
        ("qwen3", "30b-a3b", 23.006281728e9),
        ("qwen3", "235b-a22b", 148.034813952e9),
        ("gpt-oss", "120b", 32.630404608e9),
        ("gpt-oss", "20b", 22.86187776e9),
        ("kimi-k2", "1t", 204.477394944e9),
        ("nemotron-h", "56b", 335.372353536e9),
        ("nemotron3", "120b-a12b", 84.727037952e9),
        ("nemotron3", "550b-a55b", 358.914981888e9),
    ],
)
def test_megatron_bridge_counts_the_same_but_for_small_parts(workload: str, size: str, counted: float) -> None:
    model = MODELS[workload, size]
    ours = flops.compute(model).causal / model.sequence_length
    assert ours - uncounted(model) == pytest.approx(counted, rel=1e-5)


def test_megatron_bridge_counts_nanos_mamba_layers_too_wide() -> None:
    """It takes them to be twice the hidden size wide; Nano's have 64 heads of 64, and 7 % fewer FLOPs in all."""
    model = MODELS["nemotron3", "30b-a3b"]
    wide = model.replace(ssm_head_width=2 * model.hidden_size // 64)
    ours, theirs = (flops.compute(m).causal / m.sequence_length for m in (model, wide))
    counted = 22.278094848e9  # as above
    assert theirs - uncounted(wide) == pytest.approx(counted, rel=1e-3)
    assert (ours - uncounted(model)) / counted == pytest.approx(0.93, abs=0.005)
