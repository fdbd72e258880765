"""Results formatted for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx.cli.next_step import next_step
from llmbx.cli.terminal import render
from llmbx.model import Bounds, Expected, Parallelism, Reference, Result
from llmbx.model.result import CheckOutcome, Loss, Mfu, Stability, StepTime, Tflops, Timing, Window, WorkloadFacts

FULL = Result(
    run_id="pretraining_grok1_314b_fp8_128_tp4_1763712000",
    status="completed",
    data_valid=True,
    workload=WorkloadFacts(name="grok1", size="314b", dtype="fp8", gpu_type="gb200", gpus=128),
    window=Window(first=11, last=44, policy="11-44"),
    steps_measured=34,
    steps_seen=50,
    step_time_s=StepTime(mean=5.431, std=0.02, median=5.43, min=5.4, max=5.5),
    stability=Stability(verdict="stable", reason="the mean of 34 steps is uncertain by ±0.13 %"),
    tflops_per_gpu=Tflops(mean=1572.4, std=5.0, source="log"),
    tokens_per_s=386155.0,
    tokens_per_s_per_gpu=3016.8,
    mfu=Mfu(value=0.3209, formula="f", convention="causal", peak_tflops=5000.0, peak_name="GB200 dense FP8"),
    days_per_1t_tokens=29.97,
    loss=Loss(first=12.1, last=6.3),
    peak_memory_gb=161.2,
    comparable=True,
    timing=Timing(total_s=402.0, first_step_s=31.0, prepare_s=0.3, queue_s=200.0),
)
MINI = FULL.replace(
    workload=WorkloadFacts(name="grok1", size="mini", dtype="bf16", gpu_type="cpu", gpus=1),
    comparable=False,
    not_comparable_because=("a mini is a small proxy of the workload, not the workload", "measured on CPU"),
    tflops_per_gpu=Tflops(mean=0.0331, source="recomputed"),
    mfu=Mfu(formula="f", convention="causal"),
    peak_memory_gb=None,
    timing=Timing(total_s=32.0, first_step_s=5.5, prepare_s=28.1, queue_s=0.005),
)
FAILED = MINI.replace(
    status="out_of_memory",
    data_valid=False,
    cause="rank 0: RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 9663676416 bytes",
    step_time_s=StepTime(),
    steps_measured=0,
    steps_seen=3,
    stability=Stability(),
    loss=Loss(),
    tflops_per_gpu=Tflops(),
)
EXPECTED = FULL.replace(
    expected=Expected(
        step_time_s=Bounds(value=5.276, low=4.43, high=6.285), memory_gb=Bounds(value=96.2, low=48.1, high=144.3),
        source="llmbx predict",
    )
)  # fmt: skip
PUBLISHED = Reference(
    source="Grok-1 recipe, GB200 Performance", size="314b", dtype="fp8", gpu_type="gb200", gpus=128, step_time_s=5.298
)


@pytest.mark.parametrize(
    ("name", "result", "reference"),
    [("full", FULL, PUBLISHED), ("mini", MINI, None), ("failed", FAILED, None), ("expected", EXPECTED, None)],
)
def test_rendered_results(
    golden: Callable[[str, str], None], name: str, result: Result, reference: Reference | None
) -> None:
    judged = "slower than published: +2.5 % step time (95 % interval +2.4 to +2.6 %)" if reference else None
    folder, advice = "/data/llmbx/workloads/pretraining_grok1/experiments/x/x_1/x", next_step(result, "7f3k")
    text = render(result, folder, reference, (), judged, advice)
    golden(f"{name}.txt", text)
    assert all(len(line) <= 80 for line in text.splitlines() if "/data/" not in line and "1763712000" not in line)


def test_a_prediction_stands_only_where_nothing_is_published_for_the_run() -> None:
    assert "expected" not in render(EXPECTED, "/x", PUBLISHED)
    assert "expected" in render(EXPECTED, "/x", PUBLISHED, ["batch 64, not 128"])
    assert "expected" not in render(EXPECTED.replace(data_valid=False), "/x")


def test_a_slower_run_says_by_how_much() -> None:
    assert "2.5 % slower" in render(FULL, "/x", PUBLISHED)
    assert "faster" in render(FULL, "/x", PUBLISHED.replace(step_time_s=6.0))


def test_valid_data_of_a_crashed_run_is_reported() -> None:
    text = render(FULL.replace(status="failed", cause="after the last step: SIGSEGV"), "/x")
    assert text.startswith("grok1 314b fp8 on 128 x gb200: failed after its last step, data valid")


def test_parallelism_is_not_needed_to_render() -> None:
    assert render(FULL.replace(workload=FULL.workload.replace(parallelism=Parallelism())), "/x")


NOISY = FULL.replace(stability=Stability(verdict="noisy", reason="x"))


@pytest.mark.parametrize(
    ("result", "verdict", "advice"),
    [
        (FULL, "completed, valid, stable", "llmbx report 7f3k --html report.html"),
        (NOISY, "completed, valid, noisy", "llmbx run --from 7f3k --repeat 3"),
        (MINI, "completed, valid, stable, a mini", "llmbx list --here"),
        (FULL.replace(comparable=False), "completed, valid, stable, not comparable", "llmbx report 7f3k"),
        (
            FULL.replace(profiled=True, comparable=False),
            "completed, valid, stable, not comparable",
            "llmbx report 7f3k  (what",
        ),
        (FAILED, "out of memory, a mini", "llmbx logs 7f3k"),
        (FULL.replace(status="node_fail", data_valid=False), "node fail", "llmbx run --from 7f3k  (the infra"),
        (FULL.replace(status="completed", data_valid=False), "completed, data not valid", "llmbx logs 7f3k"),
        (FULL.replace(status="cancelled", data_valid=False, exit_code=130), "cancelled", "llmbx run --from 7f3k"),
    ],
)
def test_the_verdict_comes_first_and_the_next_step_last(result: Result, verdict: str, advice: str) -> None:
    lines = render(result, "/x", next_step=next_step(result, "7f3k")).splitlines()
    assert lines[0].partition(": ")[2] == verdict
    assert lines[-1].split(maxsplit=1)[1].startswith(advice)


def test_a_slow_run_is_profiled_next() -> None:
    assert (next_step(FULL, "7f3k", slower=True) or "").startswith("llmbx profile grok1 --steps 45-50")


def test_the_next_step_of_a_finding_names_the_check() -> None:
    found = CheckOutcome(check="batch", outcome="invalid", text="step 3 has 4 samples")
    invalid = FULL.replace(status="failed", data_valid=False, checks=(found,))
    assert next_step(invalid, "7f3k") == "llmbx logs 7f3k  (check batch is explained in docs/checks.md)"


def test_an_mfu_of_an_unknown_peak_is_shown() -> None:
    text = render(FULL.replace(mfu=Mfu(value=0.4, convention="causal")), "/x")
    assert "40.00 % of an unknown peak" in text
