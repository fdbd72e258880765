"""Measures in the text of a result: of a count the rate first, unknown values as such, and long names."""

from __future__ import annotations

from llmbx.cli.terminal import measure_text, render
from llmbx.model import Result
from llmbx.model.result import MeasureFacts, StepTime, Window

IMAGES = MeasureFacts(unit="images", kind="count", mean=1500.0, std=12.5, steps=8, per_second=750.25)
MEMORY = MeasureFacts(unit="GB", kind="level", mean=71.5, steps=1)
WAIT = MeasureFacts(unit="s", kind="time")


def test_the_text_of_a_measure() -> None:
    assert measure_text(IMAGES) == "750.2 images/s (1,500 ± 12.5 images per step)"
    assert measure_text(MEMORY) == "71.5 GB"
    assert measure_text(WAIT) == "unknown: no measured step has a value"


def test_a_result_has_a_line_for_each_measure() -> None:
    measures = {"images": IMAGES, "time_in_all_reduce_of_gradients": MEMORY}
    time = StepTime(mean=2.0, std=0.1, median=2.0, min=1.9, max=2.1)
    result = Result(
        run_id="x_1", status="completed", data_valid=True, window=Window(first=1, last=8), step_time_s=time,
        measures=measures,
    )  # fmt: skip
    lines = render(result, "/folder").splitlines()
    assert "  images           750.2 images/s (1,500 ± 12.5 images per step)" in lines
    assert "  time in all reduce of gradients 71.5 GB" in lines
