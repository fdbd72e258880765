"""Measures of the log format in reports: as figures of a run, side by side, and as columns of CSV."""

from __future__ import annotations

import statistics

import pytest

from llmbx.model import Measure
from llmbx_analysis.report.html import render
from llmbx_analysis.report.rows import columns, rows

from ....run_factory import RunFactory, noise
from .conftest import Reporter
from .test_build import facts

IMAGES = Measure(name="images", unit="images", kind="count", better="higher")
WAIT = Measure(name="data_wait", unit="s", kind="time")


def test_a_count_has_a_rate_and_a_mean_and_a_time_a_mean(run_factory: RunFactory, reporter: Reporter) -> None:
    times, images, waits = noise(1, 2.0), noise(2, 100.0), noise(3, 0.1)
    report = reporter.report(run_factory.put(times, measures=((IMAGES, images), (WAIT, waits))))
    found = facts(report)
    rate = found["images per second"]
    assert rate.unit == "images/s" and rate.value == pytest.approx(sum(images[11:45]) / sum(times[11:45]))
    assert rate.low is not None and rate.high is not None and rate.low < float(str(rate.value)) < rate.high
    assert found["images per step"].value == pytest.approx(statistics.fmean(images[11:45]))
    assert (found["data wait"].unit, found["data wait"].value) == ("s", pytest.approx(statistics.fmean(waits[11:45])))
    page = render(report)
    assert "images per second" in page and "data wait" in page


def test_several_configurations_show_the_measures_side_by_side(run_factory: RunFactory, reporter: Reporter) -> None:
    runs = [run_factory.put([2.0] * 50, gpus=gpus, measures=((IMAGES, [10.0 * gpus] * 50),)) for gpus in (8, 16)]
    plain = run_factory.put([2.0] * 50, gpus=32)
    report = reporter.report(*runs, plain)
    table = next(table for section in report.sections for table in section.tables if "side by side" in table.title)
    place = [column.title for column in table.columns].index("images per second")
    assert [row[place] for row in table.rows] == [40.0, 80.0, None]


def test_a_measure_that_is_named_like_a_figure_does_not_replace_it(run_factory: RunFactory, reporter: Reporter) -> None:
    odd = Measure(name="step_time", unit="s", kind="time")
    report = reporter.report(*[run_factory.put([2.0] * 50, gpus=n, measures=((odd, [9.0] * 50),)) for n in (8, 16)])
    table = next(table for section in report.sections for table in section.tables if "side by side" in table.title)
    place = [column.title for column in table.columns].index("step time")
    assert [row[place] for row in table.rows] == [2.0, 2.0]


def test_the_csv_has_a_column_for_each_number_of_a_measure(run_factory: RunFactory, reporter: Reporter) -> None:
    made = reporter.cells(
        run_factory.put([2.0] * 50, measures=((IMAGES, [10.0] * 50),)), run_factory.put([1.0] * 50, gpus=16)
    )
    found = rows(made)
    assert columns(found)[-7:][0] == "measures.images.mean"
    assert [row.get("measures.images.per_second") for row in found] == [5.0, None]
