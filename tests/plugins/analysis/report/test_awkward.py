"""Reports on incomplete results: unknown fields, invalid times, repeated steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmbx.measure.figures import measure
from llmbx.model import JobStatus, Parallelism, Result, RunSpec, Step
from llmbx.model.result import Loss, Mfu, StepTime, Tflops, Timing, Window, WorkloadFacts
from llmbx.record.folder import Record, Run, pretty
from llmbx.run.result import build_result
from llmbx_analysis.report.build import build
from llmbx_analysis.report.cells import RunData, cells
from llmbx_analysis.report.curves import bars
from llmbx_analysis.report.html import render as page
from llmbx_analysis.report.markdown import render as markdown
from llmbx_analysis.report.rows import rows

from ....run_factory import FLOPS, noise

NUMBER = st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -1.0, 1e-300, 1e300])
TIME = st.none() | st.floats(min_value=0, max_value=1e6) | st.sampled_from([0.0, 1e-300, float("inf"), float("nan")])
LOGGED = st.none() | st.floats(min_value=1e-6, max_value=1e6) | st.just(0.0)
"""What a log may print as a time."""

STEP = st.builds(Step, number=st.integers(0, 60), time_s=TIME, loss=NUMBER, attempt=st.integers(0, 2))
FACTS = st.builds(
    WorkloadFacts, name=st.none() | st.text(), gpus=st.none() | st.integers(1, 9), gpu_type=st.none() | st.just("cpu"),
    sequence_length=st.none() | st.integers(1, 9), global_batch_size=st.none() | st.integers(1, 9),
    parallelism=st.none() | st.just(Parallelism()),
)  # fmt: skip
RESULT = st.builds(
    Result, run_id=st.just("r"), status=st.sampled_from(["completed", "failed", "lost"]), data_valid=st.booleans(),
    workload=FACTS, cause=st.none() | st.text(), comparable=st.booleans(),
    window=st.builds(Window, first=st.none() | st.integers(0, 60), last=st.none() | st.integers(0, 60),
                     reason=st.none() | st.text()),
    step_time_s=st.builds(StepTime, mean=st.none() | st.floats(min_value=1e-9, max_value=1e6)),
    tflops_per_gpu=st.builds(Tflops, mean=NUMBER, source=st.sampled_from(["log", "recomputed", None])),
    tokens_per_s=NUMBER, mfu=st.builds(Mfu, value=NUMBER, peak_tflops=NUMBER), loss=st.builds(Loss, first=NUMBER),
    timing=st.builds(Timing, total_s=NUMBER), gpu_hours=NUMBER, peak_memory_gb=NUMBER,
    not_comparable_because=st.lists(st.text(), max_size=2).map(tuple),
    warnings=st.lists(st.text(), max_size=2).map(tuple),
)  # fmt: skip


def run_data(spec: RunSpec, result: Result, steps: Sequence[Step], number: int = 0) -> RunData:
    record = Record(
        id="x1", run_id=f"r_{number}", spec=spec, created=float(number), llmbx_version="0", command=("run",)
    )
    return RunData(run=Run(folder="/nowhere", record=record), result=result, steps=tuple(steps))


def is_rendered(runs: Sequence[RunData]) -> bool:
    """Whether the report in every format except drawings has something, and a verdict for each cell."""
    found = cells(runs)
    report = build(found)
    return len(report.verdicts) == len(found) and all((markdown(report), pretty(report), rows(found)))


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(RESULT, st.lists(STEP, max_size=40))
def test_any_result_can_be_rendered(spec: RunSpec, result: Result, steps: list[Step]) -> None:
    assert is_rendered([run_data(spec, result, steps)])


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.builds(Step, number=st.integers(0, 60), time_s=LOGGED, loss=NUMBER), max_size=40),
            st.integers(1, 3),
        ),
        min_size=2,
        max_size=4,
    )
)
def test_any_steps_can_be_measured_joined_and_scaled(spec: RunSpec, runs: list[tuple[list[Step], int]]) -> None:
    data = []
    for number, (steps, scale) in enumerate(runs):
        changed = spec.replace(gpus=8 * scale, window="auto")
        record = Record(id="x1", run_id="r", spec=changed, created=0.0, llmbx_version="0", command=())
        result = build_result(record, JobStatus(state="ended", exit_code=0), measure(changed, steps, FLOPS))
        data.append(run_data(changed, result.replace(status="completed", data_valid=True), steps, number))
    assert is_rendered(data)


@pytest.mark.parametrize("times", [[], [None] * 5, [0.0] * 50, [1e-9] * 50, [float("nan")] * 50, [3.0]])
def test_invalid_times_are_drawn(spec: RunSpec, times: list[Any]) -> None:
    steps = [Step(number=k, time_s=time, loss=1.0) for k, time in enumerate(times)]
    record = Record(id="x1", run_id="r", spec=spec, created=0.0, llmbx_version="0", command=())
    result = build_result(record, JobStatus(state="ended"), measure(spec, steps, FLOPS, "auto"))
    assert "<h1>" in page(build(cells([run_data(spec, result.replace(data_valid=True), steps)])))


def test_a_very_long_run_is_drawn_in_bounds(spec: RunSpec) -> None:
    steps = [Step(number=k, time_s=time, loss=1.0 / (k + 1)) for k, time in enumerate(noise(1, 1.0, count=50_000))]
    record = Record(id="x1", run_id="r", spec=spec, created=0.0, llmbx_version="0", command=())
    result = build_result(record, JobStatus(state="ended", exit_code=0), measure(spec, steps, FLOPS, "100-49999"))
    text = page(build(cells([run_data(spec, result.replace(status="completed", data_valid=True), steps)])))
    assert len(text) < 2_000_000


def test_one_time_beyond_all_others_has_a_histogram() -> None:
    points = bars([1.0, 1.1, 1.2, 1.3, 1.7e308])
    assert len(points) == 30 and sum(point.y for point in points) == 5
    assert points[0].x == 1.0 and points[-1].until == 1.7e308
