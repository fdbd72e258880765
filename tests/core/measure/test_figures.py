"""Metrics computed from steps: the recipes' formulas, rounding, profiled steps, unknown peaks."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from llmbx.measure.figures import measure, profiled_numbers
from llmbx.model import ProfileSpec, RunSpec, Step
from llmbx.model.flops import Flops
from llmbx.model.spec import Peak

Make = Callable[..., RunSpec]
H100 = Peak(tflops=989.0, name="H100 SXM dense BF16", source="test")


def steps(times: list[float], first: int = 1, **extra: object) -> list[Step]:
    return [Step(number=first + k, time_s=t, loss=5.0 - k, **extra) for k, t in enumerate(times)]  # type: ignore[arg-type]


def test_the_worked_example_of_llama_31_8b_on_8_h100(make_spec: Make) -> None:
    """12.39 s, GBS 128, 4.74E+14 FLOPs: 84631 tokens/s, 136.76 days, 30.93 % of 1979 TFLOPS (Llama 3.1 recipe)."""
    spec = make_spec(gpus=8, gpus_per_node=8, global_batch_size=128, window="last", peak=H100.replace(tflops=1979.0))
    spec = spec.replace(model=spec.model.replace(sequence_length=8192))
    found = measure(spec, steps([20.0, 12.39]), Flops(full=4.74e14, causal=4.2e14, formula="f"))
    assert found.tokens_per_s == pytest.approx(84631, abs=1)
    assert found.tokens_per_s_per_gpu == pytest.approx(84631 / 8, abs=1)
    assert found.days_per_1t_tokens == pytest.approx(136.76, abs=0.01)
    assert found.mfu.value == pytest.approx(0.3093, abs=0.0001)
    assert (found.mfu.convention, found.mfu.formula, found.mfu.peak_name) == ("full", "f", "H100 SXM dense BF16")


def test_the_convention_of_the_recipe_decides(make_spec: Make) -> None:
    flops = Flops(full=2e12, causal=1e12, formula="f")
    spec = make_spec(window="last", peak=H100)
    full = measure(spec, steps([1.0]), flops).mfu.value
    causal = measure(spec.replace(flops_convention="causal"), steps([1.0]), flops).mfu.value
    assert full is not None and causal is not None
    assert full == pytest.approx(2 * causal)


def test_an_unknown_peak_is_none_and_not_that_of_another_gpu(make_spec: Make) -> None:
    found = measure(make_spec(window="last"), steps([1.0]), Flops(full=1e12, causal=1e12, formula="f"))
    assert found.mfu.value is None and found.mfu.peak_tflops is None


def test_std_is_the_sample_deviation(make_spec: Make) -> None:
    found = measure(make_spec(window="1-4"), steps([1.0, 2.0, 3.0, 4.0]), None)
    assert found.step_time_s.std == pytest.approx(math.sqrt(5 / 3))
    assert measure(make_spec(window="last"), steps([1.0]), None).step_time_s.std is None


def test_tflops_of_the_log_are_kept_unless_it_rounds_them_away(make_spec: Make) -> None:
    flops = Flops(full=1e12, causal=1e12, formula="f")
    exact = measure(make_spec(window="1-2"), steps([1.0, 1.0], tflops_per_gpu=4.01, tflops_resolution=0.01), flops)
    assert (exact.tflops_per_gpu.source, exact.tflops_per_gpu.mean) == ("log", 4.01)
    rounded = measure(make_spec(window="1-2"), steps([1.0, 1.0], tflops_per_gpu=0.0, tflops_resolution=0.1), flops)
    assert rounded.tflops_per_gpu.source == "recomputed"
    assert rounded.tflops_per_gpu.mean == pytest.approx(1e12 * 8 / 1.0 / 2 / 1e12)
    assert measure(make_spec(window="1-2"), steps([1.0, 1.0]), None).tflops_per_gpu.mean is None


def test_tflops_of_a_log_that_counts_flops_differently_are_not_used(make_spec: Make) -> None:
    """NeMo counts 4.4e15 FLOPs a sample of Grok-1: its TFLOP/s would not be those behind the MFU."""
    flops = Flops(full=1e12, causal=1e12, formula="f")
    found = measure(make_spec(window="1-2"), steps([1.0, 1.0], tflops_per_gpu=400.0, tflops_resolution=0.1), flops)
    assert (found.tflops_per_gpu.source, found.tflops_per_gpu.mean) == ("recomputed", 4.0)
    assert len(found.warnings) == 1 and "counts FLOPs differently" in found.warnings[0]
    assert "the log's 400.0 TFLOP/s" in found.warnings[0] and "from the computed 4.0" in found.warnings[0]
    agreed = measure(make_spec(window="1-2"), steps([1.0, 1.0], tflops_per_gpu=4.0, tflops_resolution=0.01), flops)
    assert agreed.warnings == ()


@pytest.mark.parametrize(("first", "expected"), [(0, {10, 11, 12}), (1, {11, 12, 13})])
def test_profiled_steps_and_the_one_that_writes_the_file_never_count(
    make_spec: Make, first: int, expected: set[int]
) -> None:
    spec = make_spec(window="auto", profile=ProfileSpec(tool="nsys", start=10, stop=12))
    times = [0.1] * 10 + [5.0, 5.0, 50.0] + [0.1] * 7
    assert profiled_numbers(spec, steps(times, first)) == expected
    found = measure(spec, steps(times, first), None, first_number=first)
    assert found.step_time_s.max == 0.1
    assert set(found.window.excluded) == expected


def test_a_lost_first_line_does_not_move_the_profiled_steps(make_spec: Make) -> None:
    spec = make_spec(window="auto", profile=ProfileSpec(tool="nsys", start=10, stop=12))
    times = [0.1] * 10 + [5.0, 5.0, 50.0] + [0.1] * 7
    found = measure(spec, steps(times)[1:], None, first_number=1)
    assert found.step_time_s.max == 0.1 and set(found.window.excluded) == {11, 12, 13}


def test_steps_missing_from_a_window_are_reported(make_spec: Make) -> None:
    whole = steps([1.0] * 20)
    found = measure(make_spec(), [s for s in whole if not 12 <= s.number <= 17], None)
    assert (found.steps_measured, found.warnings) == (
        2,
        ("only 2 of the 8 steps of the window 11-18 could be measured",),
    )
    assert measure(make_spec(), whole, None).warnings == ()
    skipped = [s.replace(skipped=s.number in (3, 15), time_s=0.5 if s.number == 15 else 1.0) for s in whole]
    found = measure(make_spec(), skipped, None)
    assert found.step_time_s.mean == 1.0 and found.steps_measured == 7


def test_no_steps_give_no_metrics(make_spec: Make) -> None:
    found = measure(make_spec(), [], Flops(full=1.0, causal=1.0, formula="f"))
    assert (found.steps_seen, found.steps_measured, found.tokens_per_s) == (0, 0, None)
    assert found.step_time_s.mean is None and found.loss.first is None and found.mfu.value is None


def test_peak_memory_is_the_largest_in_gigabytes(make_spec: Make) -> None:
    log = [Step(number=1, time_s=1.0, peak_memory_bytes=70_833_405_952), Step(number=2, time_s=1.0)]
    assert measure(make_spec(window="last"), log, None).peak_memory_gb == pytest.approx(70.8334, abs=1e-3)


def test_a_log_without_a_run_has_the_tflops_of_the_lines_that_print_them(make_spec: Make) -> None:
    """Those of a run are computed from its formula unless every measured line has them."""
    some = [*steps([1.0, 1.0], tflops_per_gpu=400.0), *steps([1.0], first=3)]
    figures = measure(None, some, policy="1-3")
    assert (figures.tflops_per_gpu.mean, figures.tflops_per_gpu.source) == (400.0, "log")
    assert (figures.tokens_per_s, figures.mfu.value) == (None, None)
    assert measure(make_spec(), some, policy="1-3").tflops_per_gpu.mean is None
