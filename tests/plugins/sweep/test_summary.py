"""The summary of a sweep: means over repeats, failed cells, and efficiency over GPUs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmbx_sweep.cells import Cell
from llmbx_sweep.summary import summarize

from .conftest import made_result

MakeCell = Callable[..., Cell]


def test_repeats_become_a_mean_with_students_interval(make_cell: MakeCell) -> None:
    cell = make_cell(repeats=3)
    means = (0.9, 1.0, 1.1)
    (row,) = summarize([cell], {(cell.key, n + 1): made_result(f"r_{n}", mean) for n, mean in enumerate(means)})
    # t(0.975, 2) = 4.302653, standard deviation 0.1 (tables)
    half = 4.302653 * 0.1 / 3**0.5
    assert (row.n, row.repeats, row.status) == (3, 3, "completed")
    assert (row.step_time_s, row.ci95_low, row.ci95_high) == pytest.approx((1.0, 1.0 - half, 1.0 + half))
    assert row.mfu == pytest.approx(0.4) and row.runs == ("r_0", "r_1", "r_2") and row.efficiency is None


def test_throughput_is_that_at_the_mean_step_time(make_cell: MakeCell) -> None:
    cell = make_cell(repeats=2)
    repeats = {(cell.key, n + 1): made_result(f"r_{n}", mean, per_gpu=300 / mean) for n, mean in enumerate((1.0, 3.0))}
    (row,) = summarize([cell], repeats)
    assert (row.step_time_s, row.tokens_per_s_per_gpu) == pytest.approx((2.0, 300 / 2.0))


def test_one_repeat_has_no_interval_and_no_repeat_has_no_values(make_cell: MakeCell) -> None:
    one, none = make_cell(), make_cell(gpus=4)
    first, second = summarize([one, none], {(one.key, 1): made_result()})
    assert (first.n, first.step_time_s, first.ci95_low) == (1, 1.0, None)
    assert (second.n, second.step_time_s, second.status, second.mfu) == (0, None, "missing", None)


def test_a_failed_repeat_sets_the_status_and_is_not_averaged(make_cell: MakeCell) -> None:
    cell = make_cell(repeats=2)
    bad = made_result("r_2", 99.0, status="out_of_memory", data_valid=False, cause="rank 3: CUDA out of memory")
    (row,) = summarize([cell], {(cell.key, 1): made_result(), (cell.key, 2): bad})
    assert (row.n, row.step_time_s, row.status, row.cause) == (1, 1.0, "out_of_memory", "rank 3: CUDA out of memory")


def test_efficiency_is_the_throughput_of_one_gpu_against_the_smallest_scale(make_cell: MakeCell) -> None:
    cells = [make_cell(gpus=gpus, dtype=dtype) for dtype in ("bf16", "fp8") for gpus in (64, 8, 16)]
    speeds = {64: 80.0, 8: 100.0, 16: 95.0}
    rows = summarize(cells, {(cell.key, 1): made_result(per_gpu=speeds[cell.spec.gpus]) for cell in cells[:-1]})
    assert [row.efficiency for row in rows] == [0.8, 1.0, 0.95, 0.8, 1.0, None]
    other = make_cell(gpus=8, settings={"tp": "2"})
    (alone,) = summarize([other], {(other.key, 1): made_result(per_gpu=5.0)})
    assert alone.efficiency is None
