"""Figures of a run's profiles for comparisons."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmbx_profiling.figures import figures

from .exports import Export
from .test_analysis import ALLREDUCE, GEMM


def profile(folder: Path, rank: int, exposed: int) -> None:
    """Write two steps of 100 ns: 50 ns computation, 10 ns overlapped and `exposed` ns exposed communication."""
    made = Export()
    made.domain(1, "llmbx")
    for number, start in enumerate((1000, 1100)):
        made.range(start, start + 100, "step", domain=1, payload=45 + number)
        made.kernel(start, start + 50, GEMM)
        made.kernel(start + 40, start + 50 + exposed, ALLREDUCE)
    (folder / "nsys_profile").mkdir(exist_ok=True)
    made.write(folder / "nsys_profile" / f"profile_1_node1_rank{rank}.sqlite")


def test_the_parts_of_each_profiled_step_are_means_over_ranks(tmp_path: Path) -> None:
    profile(tmp_path, 0, 20)
    profile(tmp_path, 1, 40)
    found = {figure.name: figure for figure in figures(tmp_path)}
    exposed = found["exposed_communication"]
    assert exposed.values == pytest.approx((30e-9, 30e-9)) and exposed.unit == "s" and exposed.better == "lower"
    assert exposed.step_s == pytest.approx(100e-9)
    assert found["communication"].values == pytest.approx((40e-9, 40e-9))
    assert found["compute"].values == pytest.approx((50e-9, 50e-9))
    assert found["idle"].values == pytest.approx((20e-9, 20e-9))


def test_a_profile_of_the_cpu_alone_has_no_such_figure(tmp_path: Path) -> None:
    made = Export()
    made.domain(1, "llmbx")
    made.range(0, 100, "step", domain=1, payload=45)
    (tmp_path / "nsys_profile").mkdir()
    made.write(tmp_path / "nsys_profile" / "profile_1_node1_0.sqlite")
    assert figures(tmp_path) == []
