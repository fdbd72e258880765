"""What a run is expected to measure: findings about memory, and the sentences beside what was measured."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from llmbx.config.install import Install
from llmbx.errors import PluginError
from llmbx.model import Bounds, Expected, Result, RunSpec
from llmbx.model.result import StepTime
from llmbx.plugins.manager import Plugins
from llmbx.run.expectation import announced, beside, expected, memory_findings, sentence

MakeSpec = Callable[..., RunSpec]

TIME = Bounds(value=10.0, low=8.0, high=12.5)


def memory(value: float, low: float, high: float) -> Expected:
    return Expected(memory_gb=Bounds(value=value, low=low, high=high))


@pytest.mark.parametrize(
    ("need", "gpu_gb", "effect"),
    [
        (memory(60, 51, 69), 85.5, None),
        (memory(85, 72, 98), 85.5, None),
        (memory(95, 81, 109), 85.5, "warning"),
        (memory(150, 127, 172), 85.5, "error"),
        (memory(150, 127, 172), None, None),
        (Expected(), 85.5, None),
    ],
)
def test_a_run_that_cannot_fit_is_an_error(
    make_spec: MakeSpec, need: Expected, gpu_gb: float | None, effect: str | None
) -> None:
    """Only what needs more even at the lower end cannot run."""
    found = memory_findings(make_spec(gpu_type="h100"), need, gpu_gb)
    assert [("warning" if one.warning else "error") for one in found] == ([effect] if effect else [])
    if found:
        assert "h100 has 86 GB" in found[0].problem and "(predicted)" in found[0].problem


def test_nothing_is_predicted_for_a_cpu_or_a_mini(make_spec: MakeSpec, tmp_path: Any) -> None:
    def fail(*_: object) -> Expected:
        raise AssertionError("no plugin is asked")

    plugins = cast(Plugins, SimpleNamespace(predict_run=fail))
    found = expected(make_spec(gpu_type="cpu"), plugins, Install(root=str(tmp_path), origin="test"))
    assert found.step_time_s.value is None and found.unknown_because == "nothing is predicted for a CPU"
    mini = expected(make_spec(gpu_type="h100", mini=True), plugins, Install(root=str(tmp_path), origin="test"))
    assert mini == Expected(unknown_because="nothing is predicted for a mini")
    assert memory_findings(make_spec(gpu_type="cpu"), memory(99, 98, 100), 1) == []


def test_a_plugin_that_fails_is_the_reason_of_an_unknown(make_spec: MakeSpec, tmp_path: Any) -> None:
    def fail(*_: object) -> Expected:
        raise PluginError("plugin 'x': predict_run failed: no table")

    plugins = cast(Plugins, SimpleNamespace(predict_run=fail))
    found = expected(make_spec(gpu_type="h100"), plugins, Install(root=str(tmp_path), origin="test"))
    assert found == Expected(unknown_because="plugin 'x': predict_run failed: no table")


def test_what_is_announced_before_the_start(make_spec: MakeSpec) -> None:
    unknown, known = Expected(unknown_because="why"), Expected(step_time_s=TIME)
    assert announced(known, make_spec(gpu_type="h100", steps=5)) == (
        "expected: 10 (8 to 12.5) s per step, 50 s for 5 steps (a prediction)"
    )
    assert announced(unknown, make_spec(gpu_type="h100")) == "expected: unknown (why)"
    assert announced(unknown, make_spec(gpu_type="cpu")) is None


def test_the_sentence() -> None:
    both = Expected(step_time_s=TIME, memory_gb=Bounds(value=58.2, low=49.5, high=66.9))
    assert sentence(both) == "10 (8 to 12.5) s per step; 58 (50 to 67) GB per GPU"
    assert sentence(both, 50) == "10 (8 to 12.5) s per step, 8 min for 50 steps; 58 (50 to 67) GB per GPU"
    assert sentence(Expected(step_time_s=TIME), 5) == "10 (8 to 12.5) s per step, 50 s for 5 steps"
    assert sentence(Expected(unknown_because="why")) is None


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        (11.0, "10.0 % slower, inside the interval; "),
        (13.0, "30.0 % slower, outside the interval; "),
        (7.5, "25.0 % faster, outside the interval; "),
        (None, ""),
    ],
)
def test_the_measured_time_stands_beside_it(measured: float | None, text: str) -> None:
    result = Result(
        run_id="r", status="completed", data_valid=True, step_time_s=StepTime(mean=measured),
        expected=Expected(step_time_s=TIME),
    )  # fmt: skip
    assert beside(result) == text
