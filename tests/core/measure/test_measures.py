"""Measures by name over a window: statistics, and rates as the sum of counts over the sum of times."""

from __future__ import annotations

import pytest

from llmbx.measure.figures import measure
from llmbx.model import Measure, Step

IMAGES = Measure(name="images", unit="images", kind="count", better="higher")
WAIT = Measure(name="wait", unit="s", kind="time")


def steps(*pairs: tuple[float, float]) -> list[Step]:
    return [Step(number=n, time_s=t, loss=1.0, measures={"images": c}) for n, (t, c) in enumerate(pairs, 1)]


def test_the_rate_of_a_count_is_the_sum_over_the_sum_and_not_the_mean_of_rates() -> None:
    found = measure(None, steps((1.0, 10.0), (3.0, 90.0)), policy="1-2", declared=[IMAGES]).measures["images"]
    assert found.per_second == 25.0, "100 images in 4 s; the mean of 10 and 30 per second would be 20"
    assert (found.mean, found.median, found.min, found.max, found.steps) == (50.0, 50.0, 10.0, 90.0, 2)
    assert found.std == pytest.approx(56.568542)
    assert (found.unit, found.kind, found.better) == ("images", "count", "higher")


def test_only_measured_steps_count() -> None:
    some = steps((1.0, 10.0), (1.0, 20.0), (1.0, 30.0), (1.0, 1000.0))
    some[2] = some[2].replace(skipped=True)
    found = measure(None, some, policy="2-3", declared=[IMAGES]).measures["images"]
    assert (found.mean, found.per_second, found.steps) == (20.0, 20.0, 1)


def test_a_measure_without_values_is_unknown_and_a_gap_is_a_warning() -> None:
    some = steps((1.0, 10.0), (1.0, 20.0))
    some[1] = some[1].replace(measures={})
    found = measure(None, some, policy="1-2", declared=[IMAGES, WAIT])
    assert found.measures["wait"].steps == 0 and found.measures["wait"].mean is None
    assert found.measures["images"].per_second == 10.0, "over the step that has a value"
    assert found.warnings == (
        "only 1 of the 2 measured steps has the measure images", "none of the 2 measured steps have the measure wait",
    )  # fmt: skip
    assert measure(None, some, policy="1-2").measures == {}


def test_only_counts_have_a_rate() -> None:
    some = [Step(number=1, time_s=2.0, measures={"wait": 0.5})]
    assert measure(None, some, policy="1-1", declared=[WAIT]).measures["wait"].per_second is None
