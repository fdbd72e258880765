"""Consistent tables have no findings; a wrong term in one cell is found and named."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.catalog import hardware
from llmbx.model import ModelShape, Reference
from llmbx_analysis.audit.cells import count_recomputable, disputes
from llmbx_analysis.audit.explain import Candidates
from llmbx_analysis.audit.terms import Case, Terms, compute

from .conftest import SHAPE, flops

GPUS = hardware.builtin()

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
    assert disputes(cases, Candidates(cases=cases, gpus=GPUS)) == []


@given(terms_, st.floats(0.5, 2.0).filter(lambda f: abs(f - 1) > 0.0061))
def test_a_figure_outside_the_tolerance_is_disputed(terms: Terms, factor: float) -> None:
    right = figures(terms)
    cases = [case(terms, tokens_per_s=right["tokens_per_s"] * factor)]
    (found,) = disputes(cases, Candidates(cases=cases, gpus=GPUS))
    assert found.field == "tokens_per_s"
    assert found.recomputed == pytest.approx(right["tokens_per_s"])
    assert found.difference_percent == pytest.approx(100 * (factor - 1), rel=1e-4)


@given(terms_, st.floats(-0.0059, 0.0059))
def test_a_figure_within_the_tolerance_is_not_disputed(terms: Terms, off: float) -> None:
    cases = [case(terms, **{field: value * (1 + off) for field, value in figures(terms).items()})]
    assert disputes(cases, Candidates()) == []
    if abs(off) > 1e-9:
        assert len(disputes(cases, Candidates(), tolerance=0.0)) == 3


@pytest.mark.parametrize(
    ("changed", "fields", "words"),
    [
        ({"peak_tflops": 2500.0}, {"mfu"},
         "a peak of 2500 TFLOP/s (GB200 dense BF16 or GB300 dense BF16) instead of 989"),
        ({"batch": 256}, {"tokens_per_s", "mfu", "days_per_1t_tokens"}, "the global batch size 256 of 128 GPUs"),
        ({"convention": "causal"}, {"mfu"}, "causal attention instead of full"),
        ({"model": SHAPE.replace(query_groups=16)}, {"mfu"}, "16 query groups instead of 4"),
        ({"model": SHAPE.replace(vocab_size=128256)}, {"mfu"}, "the vocabulary of Llama (128256)"),
        ({"step_time_s": 1.9}, {"tokens_per_s", "mfu", "days_per_1t_tokens"}, "the step time of 128 GPUs, 1.9 s"),
        ({"convention": "causal", "model": SHAPE.replace(vocab_size=128256)}, {"mfu"},
         "causal attention instead of full in the FLOPs, and the vocabulary of Llama"),
    ],
)  # fmt: skip
def test_the_assumption_behind_a_figure_is_named(changed: dict[str, object], fields: set[str], words: str) -> None:
    assumed = BASE.replace(**changed)
    other = BASE.replace(gpus=128, batch=256, step_time_s=1.9)
    cases = [case(BASE, **figures(assumed)), case(other, **figures(other))]
    known = Candidates(cases=cases, gpus=GPUS, vocabularies={128256: "Llama", 32000: "other"})
    found = disputes(cases, known)
    assert {item.field for item in found} == fields
    for item in found:
        assert item.gpus == 64
        assert item.explanation is not None and words in item.explanation
        assert "several" not in item.explanation


OTHER = BASE.replace(gpus=128, batch=256)


@pytest.mark.parametrize(
    ("changed", "others", "causes"),
    [
        ({"peak_tflops": 1979.0}, [BASE.replace(gpus=128)],
         ["a peak of 1979 TFLOP/s (H100 SXM dense FP8 or H200 SXM dense FP8) instead of 989",
          "128 GPUs instead of 64"]),
        ({"batch": 256}, [BASE.replace(gpus=32), OTHER],
         ["the global batch size 256 of 128 GPUs instead of 128", "32 GPUs instead of 64"]),
        ({"gpus": 32}, [BASE.replace(gpus=32), OTHER],
         ["the global batch size 256 of 128 GPUs instead of 128", "32 GPUs instead of 64"]),
        ({"batch": 256}, [OTHER, BASE.replace(gpus=256, step_time_s=0.85)],
         ["the global batch size 256 of 128 GPUs", "the step time of 256 GPUs, 0.85 s"]),
        # The printed peak of a GB200 is 2 % under its data sheet's; so is the step time of another row.
        ({"peak_tflops": 2450.0, "own": 2500.0}, [BASE.replace(gpus=128, step_time_s=1.7 / 1.0204)],
         ["a peak of 2450 TFLOP/s (printed for GB200 BF16) instead of 2500", "the step time of 128 GPUs"]),
        ({"model": SHAPE.replace(vocab_size=128256)}, [],
         ["the vocabulary of Llama (128256) instead of 50000", "the vocabulary of Other (128000) instead of 50000"]),
    ],
)  # fmt: skip
def test_several_causes_of_one_ratio_are_all_listed_and_none_is_picked(
    changed: dict[str, Any], others: list[Terms], causes: list[str]
) -> None:
    own = BASE.replace(peak_tflops=changed.pop("own", 989.0))
    wrong = figures(own.replace(**changed))["mfu"]
    cases = [case(own, mfu=wrong), *(case(other) for other in others)]
    printed = case(BASE.replace(peak_tflops=2450.0))
    printed = dataclasses.replace(
        printed, workload="another", reference=printed.reference.replace(gpu_type="gb200", peak_tflops=2450.0)
    )
    known = Candidates(cases=[*cases, printed], gpus=GPUS, vocabularies={128256: "Llama", 128000: "Other"})
    (found,) = disputes(cases, known)
    assert found.explanation is not None and found.explanation.startswith("several causes fit: ")
    assert all(cause in found.explanation for cause in causes)


def test_rows_with_the_same_batch_are_one_cause() -> None:
    others = [BASE.replace(gpus=96, batch=256), BASE.replace(gpus=128, batch=256)]
    cases = [case(BASE, tokens_per_s=figures(BASE.replace(batch=256))["tokens_per_s"]), *map(case, others)]
    (found,) = disputes(cases, Candidates(cases=cases))
    assert found.explanation == (
        "the global batch size 256 of 96 GPUs instead of 128 or the global batch size 256 of 128 GPUs instead of 128"
    )


def test_many_causes_are_counted() -> None:
    names = {128256 + k: f"model {k}" for k in range(9)}
    cases = [case(BASE, mfu=figures(BASE.replace(model=SHAPE.replace(vocab_size=128256)))["mfu"])]
    (found,) = disputes(cases, Candidates(cases=cases, vocabularies=names))
    assert found.explanation is not None and found.explanation.endswith("; and 5 more")


def test_a_percentage_for_a_fraction_and_rounding() -> None:
    right = figures(BASE)
    cases = [case(BASE, mfu=right["mfu"] * 100), case(BASE, days_per_1t_tokens=76.0)]
    first, second = disputes(cases, Candidates(gpus=GPUS))
    assert first.explanation == "percentage and fraction swapped"
    assert second.explanation is None
    days = BASE.replace(step_time_s=0.0799)
    (rounded,) = disputes([case(days, days_per_1t_tokens=3.5)], Candidates())
    assert rounded.explanation == "rounding to the printed digits"


def test_a_figure_without_a_matching_assumption_has_no_explanation() -> None:
    cases = [case(BASE, mfu=figures(BASE)["mfu"] * 1.1234)]
    (found,) = disputes(cases, Candidates(cases=cases, gpus=GPUS, vocabularies={32000: "x"}))
    assert found.explanation is None


def test_cells_with_unknown_terms_are_skipped() -> None:
    partial = BASE.replace(model=None, sequence_length=None)
    cases = [case(partial, **figures(BASE))]
    assert count_recomputable(cases) == 0
    stated = partial.replace(flops=flops(SHAPE).full)
    assert count_recomputable([case(stated, **figures(BASE))]) == 1
    assert disputes([case(stated, **figures(BASE))], Candidates()) == []


@settings(max_examples=50)
@given(terms_, st.sampled_from([gpu for gpu in GPUS.values() if gpu.peaks]), st.data())
def test_a_wrong_peak_is_always_found(terms: Terms, gpu: hardware.GpuType, data: st.DataObject) -> None:
    peak = data.draw(st.sampled_from(sorted(gpu.peaks.values(), key=lambda p: p.tflops)))
    cases = [case(terms, **(figures(terms) | {"mfu": figures(terms.replace(peak_tflops=peak.tflops))["mfu"]}))]
    found = disputes(cases, Candidates(cases=cases, gpus=GPUS))
    if abs(peak.tflops / 989.0 - 1) < 0.006:
        assert found == []
    else:
        assert found[0].explanation is not None
        words = found[0].explanation
        assert f"{peak.tflops:g} TFLOP/s" in words or "rounding" in words or "swapped" in words
