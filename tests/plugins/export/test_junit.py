"""JUnit XML of runs: read by another library, one case per run, with the verdicts of the exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import junitparser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmbx.cli.cases import Case, of_runs
from llmbx.cli.workspace import Workspace
from llmbx.config.install import Install
from llmbx.config.profiles import Config
from llmbx.model import Reference, Result, RunSpec, Stability
from llmbx.plugins.manager import Plugins
from llmbx.record.folder import read_result
from llmbx_export.junit import render

from ...run_factory import RunFactory, Toy, noise, plugins, row, toy

__all__ = ["plugins", "row", "toy"]

Made = Callable[..., Result]


def read(text: str) -> tuple[junitparser.TestSuite, list[junitparser.TestCase]]:
    found = junitparser.JUnitXml.fromroot(junitparser.junitparser.etree.fromstring(text.encode()))
    (suite,) = found
    return suite, list(suite)


def cases_of(cases: list[Case]) -> tuple[junitparser.TestSuite, list[junitparser.TestCase]]:
    return read(render("a suite", cases))


@pytest.fixture
def workspace(plugins: Plugins, install: Install) -> Workspace:
    return Workspace(plugins, Config(), {}, install)


@pytest.fixture
def made(run_factory: RunFactory) -> Made:
    def put(mean: float = 1.0, seed: int = 1, **result: Any) -> Result:
        comparable = {"comparable": True, "stability": Stability(verdict="stable", reason="x")}
        found = read_result(run_factory.put(noise(seed, mean), result={**comparable, **result}).path)
        assert found is not None
        return found

    return put


UNSTABLE = Stability(verdict="noisy", reason="CV 9 %")


@pytest.mark.parametrize(
    ("mean", "facts", "outcome", "type_", "says"),
    [
        (1.0, {}, None, "", ""),
        (1.3, {}, junitparser.Failure, "slower", "slower than published: +30"),
        (1.0, {"stability": UNSTABLE}, junitparser.Error, "unstable", "the window is not stable (noisy): CV 9 %"),
        (1.0, {"status": "failed", "data_valid": False, "cause": "no loss <0>"}, junitparser.Failure, "failed",
         "no loss <0>"),
        (1.0, {"status": "timeout", "cause": None}, junitparser.Failure, "timeout", "timeout"),
        (1.0, {"status": "node_fail", "cause": "node n2 failed"}, junitparser.Error, "node_fail", "node n2 failed"),
    ],
)  # fmt: skip
def test_the_case_of_a_run_has_the_verdict_of_its_exit_code(
    made: Made, workspace: Workspace, spec: RunSpec, toy: Toy, row: Reference,
    mean: float, facts: dict[str, Any], outcome: Any, type_: str, says: str,
) -> None:  # fmt: skip
    toy.references = (row,)
    result = made(mean, **facts)
    suite, (case,) = cases_of(of_runs([result], spec, workspace, 0.05))
    code = workspace.exit_code([result], spec, 0.05, say=False)
    assert (code == 0) is (outcome is None) is case.is_passed
    assert (suite.failures, suite.errors, suite.tests) == (
        outcome is junitparser.Failure, outcome is junitparser.Error, 1)  # fmt: skip
    for found in case.result:
        assert type(found) is outcome and found.type == type_ and found.message.startswith(says)
    assert case.name == spec.experiment and case.classname == "llmbx.line"
    assert f"step_time_s.mean: {result.step_time_s.mean:.6g} s" in (case.system_out or "").splitlines()
    assert "peak_memory_gb" not in (case.system_out or ""), "an unknown figure is left out"


def test_repeats_are_compared_with_the_published_figure_together(
    made: Made, workspace: Workspace, spec: RunSpec, toy: Toy, row: Reference
) -> None:
    toy.references = (row,)
    alike = [made(1.3, seed) for seed in (1, 2, 3)]
    _, cases = cases_of(of_runs(alike, spec, workspace, 0.05, "the queue is closed"))
    assert [case.name for case in cases] == [spec.experiment, *(f"{spec.experiment} {n}" for n in (2, 3, 4))]
    assert [found.type for case in cases for found in case.result] == ["slower"] * 3 + ["infrastructure"]
    assert len({found.message for case in cases[:3] for found in case.result}) == 1
    scattered = [made(1.3), made(0.8, 2), made(1.0, 3)]
    _, cases = cases_of(of_runs(scattered, spec, workspace, 0.05))
    assert all(case.is_passed for case in cases), "the interval over the repeats decides"


@settings(max_examples=25)
@given(st.lists(st.tuples(st.text(), st.text(), st.text(), st.floats(0, 1e7) | st.none()), min_size=1, max_size=3))
def test_any_text_is_read_back_as_it_is_shown(texts: list[tuple[str, str, str, float | None]]) -> None:
    bad = [Case(name=a, about="a.b c", outcome="failure", type="x", message=b, text=c, time_s=d)
           for a, b, c, d in texts]  # fmt: skip
    _, cases = cases_of(bad)
    for case, (name, message, text, time_s) in zip(cases, texts, strict=True):
        plain = all("\x20" <= character < "\x7f" for character in name + message + text)
        if plain:
            assert (case.name, case.result[0].message, case.system_out or "") == (name, message, text)
        assert case.classname == "llmbx.a_b_c"
        assert (case.time is None) is (time_s is None)
