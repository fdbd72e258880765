"""What the plugin that registers a judge decides about a run, and a run without one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from llmbx import hookimpl
from llmbx.measure.judge import Judge
from llmbx.model import Check, Evidence, RunSpec, Stability, Step
from llmbx.plugins.manager import Plugins
from llmbx.run.assess import NO_PLUGIN
from llmbx.run.finalize import finalize

from .conftest import StoreRun


class Strict(Judge):
    """A judge's stand-in: no window is stable, and one check finds what `answer` is."""

    def __init__(self, effect: str, answer: str | None) -> None:
        self.effect, self.answer = effect, answer
        self.seen: list[Evidence] = []

    def checks(self) -> Sequence[Check]:
        about = {"id": "answer", "reads": "Nothing.", "means": "Nothing.", "do": "Nothing."}
        return [Check(**about, effect=self.effect, test=self.test)]  # type: ignore[arg-type]

    def test(self, evidence: Evidence) -> str | None:
        self.seen.append(evidence)
        return self.answer

    def stability(
        self, policy: str, steps: Sequence[Step], measured: Sequence[Step], excluded: Collection[int] = ()
    ) -> Stability:
        return Stability(verdict="noisy", reason=f"{len(measured)} of {len(steps)} steps in {policy}")

    @hookimpl
    def register_judge(self) -> Judge:
        return self


def test_without_a_judge_a_run_is_recorded_with_a_verdict_of_null(store_run: StoreRun, plugins: Plugins) -> None:
    result = finalize(store_run(), plugins)
    assert result is not None and (result.status, result.data_valid, result.checks) == ("completed", True, ())
    assert result.stability == Stability(verdict=None, reason=None)
    assert NO_PLUGIN in result.warnings
    assert result.step_time_s.mean == 2.0


@pytest.mark.parametrize(
    ("effect", "status", "valid", "comparable", "cause"),
    [
        ("invalid", "failed", False, True, "it is wrong (check answer)"),
        ("failed", "failed", True, True, "it is wrong (check answer)"),
        ("not comparable", "completed", True, False, None),
        ("warning", "completed", True, True, None),
    ],
)
def test_a_finding_of_the_judge_has_the_effect_of_its_check(
    store_run: StoreRun, plugins: Plugins, effect: str, status: str, valid: bool, comparable: bool, cause: str | None
) -> None:
    judge = Strict(effect, "it is wrong")
    plugins.manager.register(judge, name="judge")
    result = finalize(store_run(), plugins)
    assert result is not None
    assert (result.status, result.data_valid, result.comparable, result.cause) == (status, valid, comparable, cause)
    assert [(outcome.check, outcome.outcome) for outcome in result.checks] == [("answer", effect)]
    assert ("it is wrong (check answer)" in result.warnings) == (effect == "warning")
    assert ("it is wrong (check answer)" in result.not_comparable_because) == (effect == "not comparable")
    assert NO_PLUGIN not in result.warnings


def test_the_result_of_a_derived_row_says_so_and_is_not_comparable_with_published_figures(
    store_run: StoreRun, plugins: Plugins, spec: RunSpec
) -> None:
    result = finalize(store_run(spec=spec.replace(gpu_type="h200", layout_of="h100", scaled_from=8)), plugins)
    assert result is not None and result.data_valid and not result.comparable
    assert (result.workload.layout_of, result.workload.scaled_from) == ("h100", 8)
    mark = f"layout of h100, scaled from 8 GPUs; no published figure for {spec.gpus} x h200"
    assert mark in result.not_comparable_because


def test_the_judge_gets_the_steps_and_the_evidence_of_the_run(store_run: StoreRun, plugins: Plugins) -> None:
    judge = Strict("invalid", None)
    plugins.manager.register(judge, name="judge")
    run = store_run()
    result = finalize(run, plugins)
    assert result is not None and result.checks == ()
    assert result.stability == Stability(verdict="noisy", reason="8 of 20 steps in 11-18")
    (evidence,) = judge.seen
    assert (evidence.spec, len(evidence.steps), evidence.ended_well) == (run.record.spec, 20, True)
    assert evidence.figures is not None and evidence.figures.steps_measured == 8


class Broken(Judge):
    """A judge's stand-in, all of whose methods fail."""

    def checks(self) -> Sequence[Check]:
        raise KeyError("no checks")

    def stability(
        self, policy: str, steps: Sequence[Step], measured: Sequence[Step], excluded: Collection[int] = ()
    ) -> Stability:
        raise ZeroDivisionError("no steps")

    @hookimpl
    def register_judge(self) -> Judge:
        return self


def test_a_run_is_recorded_although_its_judge_fails(store_run: StoreRun, plugins: Plugins) -> None:
    plugins.manager.register(Broken(), name="broken")
    result = finalize(store_run(), plugins)
    assert result is not None and (result.status, result.step_time_s.mean) == ("completed", 2.0)
    assert result.stability.verdict is None
    assert str(result.stability.reason).startswith("not judged: plugin 'broken': stability of judge 'broken' failed")
    ((check, outcome, text),) = [(made.check, made.outcome, made.text) for made in result.checks]
    assert (check, outcome) == ("broken:checks", "not possible") and "KeyError" in text
