"""Scaling: weak or strong, the efficiency and its base, and scales without valid data."""

from __future__ import annotations

import pytest

from llmbx.model import Section
from llmbx.record.folder import Run

from ....run_factory import RunFactory, noise
from .conftest import Reporter


def scaling(reporter: Reporter, *runs: Run) -> Section:
    (section,) = [s for s in reporter.report(*runs).sections if s.name == "scaling"]
    return section


@pytest.mark.parametrize(
    ("batches", "kind", "formula", "efficiency"),
    [
        ((64, 128), "Weak scaling", "step time at 8 GPUs / step time", 80.0),
        ((64, 64), "Strong scaling", "step time at 8 GPUs × 8 / (step time × GPUs)", 40.0),
        ((64, 96), "Scaling", "(throughput / GPUs) / (throughput / GPUs at 8 GPUs)", 60.0),
    ],
)
def test_the_section_says_how_the_batch_grows_and_how_efficiency_is_computed(
    run_factory: RunFactory, reporter: Reporter, batches: tuple[int, int], kind: str, formula: str, efficiency: float
) -> None:
    runs = [
        run_factory.put([seconds] * 50, gpus=gpus, global_batch_size=batch)
        for seconds, gpus, batch in zip((1.0, 1.25), (8, 16), batches, strict=True)
    ]
    section = scaling(reporter, *runs)
    assert section.text[0].startswith(f"{kind} of line 1b bf16 on h100: the efficiency at 16 GPUs is {efficiency:g} %")
    assert f"Efficiency = {formula}: the throughput per GPU relative to that at 8 GPUs." in section.text[1]
    chart = next(chart for chart in section.charts if chart.name == "efficiency")
    assert [point.y for point in chart.series[0].points] == [100.0, pytest.approx(efficiency)]
    assert chart.formula == formula


def test_the_ideal_step_time_follows_the_batch(run_factory: RunFactory, reporter: Reporter) -> None:
    for batches, ideal in (((64, 128, 256), (1.0, 1.0, 1.0)), ((64, 64, 64), (1.0, 0.5, 0.25))):
        runs = [
            run_factory.put([1.1 if gpus > 8 else 1.0] * 50, gpus=gpus, global_batch_size=batch)
            for gpus, batch in zip((8, 16, 32), batches, strict=True)
        ]
        chart = next(c for c in scaling(reporter, *runs).charts if c.name == "scaled-step-time")
        assert [point.y for point in chart.series[1].points] == [pytest.approx(seconds) for seconds in ideal]


def test_a_failed_scale_is_a_warning_a_row_and_a_line_in_every_chart(
    run_factory: RunFactory, reporter: Reporter
) -> None:
    runs = [run_factory.put(noise(k, 1.0 / k), gpus=8 * k) for k in (1, 2)]
    failure = {"status": "out_of_memory", "cause": "rank 3: too large"}
    runs.append(run_factory.put(noise(4, 1.0, count=5), gpus=32, valid=False, result=failure))
    section = scaling(reporter, *runs)
    assert section.warnings == (
        "line 1b bf16, 32 × h100 has no valid data (out of memory): rank 3: too large.",
    )  # fmt: skip
    row = section.tables[0].rows[-1]
    assert row[:4] == ("line 1b bf16, 32 × h100", "out of memory", 32, 64) and set(row[4:]) == {None}
    for chart in section.charts:
        assert [(rule.name, rule.x) for rule in chart.rules if rule.x] == [("32: out of memory", 32.0)]
        assert 32.0 in chart.x.ticks and "32: out of memory" in chart.summary


def test_the_base_is_the_smallest_scale_with_valid_data(run_factory: RunFactory, reporter: Reporter) -> None:
    runs = [run_factory.put(noise(1, 1.0, count=5), gpus=8, valid=False)]
    runs += [run_factory.put(noise(k, 1.0 / k), gpus=8 * k) for k in (2, 4)]
    section = scaling(reporter, *runs)
    assert "relative to 16 GPUs" in section.text[0] and len(section.charts) == 3


def test_one_scale_with_valid_data_has_no_efficiency(run_factory: RunFactory, reporter: Reporter) -> None:
    runs = [run_factory.put(noise(1, 1.0)), run_factory.put(noise(2, 1.0, count=5), gpus=16, valid=False)]
    section = scaling(reporter, *runs)
    assert section.text[0] == "line 1b bf16 on h100: only one scale has valid data, so the efficiency is unknown."
    assert section.charts == () and len(section.tables[0].rows) == 2 and len(section.warnings) == 1


def test_without_any_valid_data_there_is_no_section(run_factory: RunFactory, reporter: Reporter) -> None:
    runs = [run_factory.put(noise(k, 1.0, count=5), gpus=8 * k, valid=False) for k in (1, 2)]
    assert "scaling" not in [section.name for section in reporter.report(*runs).sections]
