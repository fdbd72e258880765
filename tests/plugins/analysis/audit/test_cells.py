"""Consistent tables have no findings; a wrong figure is found and recomputed."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmbx.model import ModelShape, Reference
from llmbx_analysis.audit.cells import count_recomputable, disputes
from llmbx_analysis.audit.terms import Case, Terms, compute

from .conftest import SHAPE, flops

shapes = st.builds(
    ModelShape,
    layers=st.integers(2, 120),
    hidden_size=st.sampled_from([1024, 4096, 8192, 16384]),
    ffn_hidden_size=st.integers(1024, 60000),
    heads=st.sampled_from([16, 32, 64]),
    query_groups=st.sampled_from([4, 8]),
    vocab_size=st.integers(10000, 250000),
    sequence_length=st.sampled_from([2048, 4096, 8192]),
)
terms_ = st.builds(
    Terms,
    gpus=st.sampled_from([8, 64, 512]),
    sequence_length=st.sampled_from([2048, 8192]),
    batch=st.integers(1, 4096),
    step_time_s=st.floats(0.5, 60),
    model=shapes,
    convention=st.sampled_from(["full", "causal"]),
    peak_tflops=st.just(989.0),
)


def case(terms: Terms, **published: float) -> Case:
    reference = Reference(
        source="s", size="1b", dtype="bf16", gpu_type="h100", gpus=terms.gpus, step_time_s=terms.step_time_s,
        global_batch_size=terms.batch, convention=terms.convention, **published,
    )  # fmt: skip
    return Case("toy", reference, terms, flops)


def figures(terms: Terms) -> dict[str, float]:
    found = {field: compute(field, terms, flops) for field in ("tokens_per_s", "mfu", "days_per_1t_tokens")}
    return {field: value for field, value in found.items() if value is not None}


BASE = Terms(gpus=64, sequence_length=2048, batch=128, step_time_s=1.7, model=SHAPE, peak_tflops=989.0)


def test_the_formulas_are_those_of_the_recipes() -> None:
    """By hand: 2048 x 128 / 1.7 s; 1e12 tokens at that rate; 128 samples' FLOPs over 1.7 s, 64 GPUs and the peak."""
    found = figures(BASE)
    assert found["tokens_per_s"] == pytest.approx(154202.3529)
    assert found["days_per_1t_tokens"] == pytest.approx(75.0580, abs=1e-3)
    per_sample = 2048 * (12 * 16 * 1024**2 * (1 + 4 / 16 + 2048 / 1024) + 18 * 16 * 4096 * 1024 + 6 * 50000 * 1024)
    assert found["mfu"] == pytest.approx(128 * per_sample / 1.7 / 64 / 989e12)


@given(terms_)
def test_consistent_figures_are_not_disputed(terms: Terms) -> None:
    cases = [case(terms, **figures(terms))]
    assert count_recomputable(cases) == 3
    assert disputes(cases) == []


@given(terms_, st.floats(0.5, 2.0).filter(lambda f: abs(f - 1) > 0.0061))
def test_a_figure_outside_the_tolerance_is_disputed(terms: Terms, factor: float) -> None:
    right = figures(terms)
    cases = [case(terms, tokens_per_s=right["tokens_per_s"] * factor)]
    (found,) = disputes(cases)
    assert found.field == "tokens_per_s"
    assert found.recomputed == pytest.approx(right["tokens_per_s"])
    assert found.difference_percent == pytest.approx(100 * (factor - 1), rel=1e-4)


@given(terms_, st.floats(-0.0059, 0.0059))
def test_a_figure_within_the_tolerance_is_not_disputed(terms: Terms, off: float) -> None:
    cases = [case(terms, **{field: value * (1 + off) for field, value in figures(terms).items()})]
    assert disputes(cases) == []
    if abs(off) > 1e-9:
        assert len(disputes(cases, tolerance=0.0)) == 3


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"peak_tflops": 2500.0}, {"mfu"}),
        ({"batch": 256}, {"tokens_per_s", "mfu", "days_per_1t_tokens"}),
        ({"step_time_s": 1.9}, {"tokens_per_s", "mfu", "days_per_1t_tokens"}),
        ({"convention": "causal"}, {"mfu"}),
        ({"model": SHAPE.replace(query_groups=16)}, {"mfu"}),
        ({"model": SHAPE.replace(vocab_size=128256)}, {"mfu"}),
    ],
)
def test_figures_of_other_terms_are_disputed(changed: dict[str, object], fields: set[str]) -> None:
    right, wrong = figures(BASE), figures(BASE.replace(**changed))
    found = disputes([case(BASE, **wrong)])
    assert {item.field for item in found} == fields
    for item in found:
        assert (item.published, item.recomputed) == (wrong[item.field], right[item.field])


def test_the_reason_is_what_the_file_says() -> None:
    wrong = case(BASE, mfu=99.0)
    (found,) = disputes([wrong])
    assert found.reason == "unexplained"
    stated = dataclasses.replace(wrong, reference=wrong.reference.replace(disputed="a misprint"))
    (found,) = disputes([stated])
    assert found.reason == "a misprint"


def test_cells_with_unknown_terms_are_skipped() -> None:
    partial = BASE.replace(model=None, sequence_length=None)
    cases = [case(partial, **figures(BASE))]
    assert count_recomputable(cases) == 0
    stated = partial.replace(flops=flops(SHAPE).full)
    assert count_recomputable([case(stated, **figures(BASE))]) == 1
    assert disputes([case(stated, **figures(BASE))]) == []
