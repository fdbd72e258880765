"""Whether a run is slower than its published figure: the interval decides, not the means."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from llmbx.cli.published import against_published
from llmbx.config.install import Install
from llmbx.measure.figures import measure
from llmbx.model import JobStatus, Recipe, Reference, Result, RunSpec, Stability, Step, Workload
from llmbx.record.folder import Record
from llmbx.record.history import History
from llmbx.run.result import build_result
from llmbx_verdict.judge import IntervalJudge
from llmbx_verdict.published import AgainstPublished, change_from

PLUGINS: Any = SimpleNamespace(judge=IntervalJudge(), history=History())
WORKSPACE: Any = SimpleNamespace(plugins=PLUGINS, install=Install(root="/nowhere", origin="test"))


def row(**more: object) -> Reference:
    facts = {"source": "test", "size": "1b", "dtype": "bf16", "gpu_type": "h100", "gpus": 2, "step_time_s": 1.0}
    return Reference(**{**facts, **more})  # type: ignore[arg-type]


def steady(mean_s: float, count: int = 34, seed: int = 3) -> list[float]:
    chosen = random.Random(seed)
    found = [chosen.gauss(mean_s, 0.002 * mean_s) for _ in range(count)]
    return [value * mean_s * count / sum(found) for value in found]


def verdict(means: Sequence[float], times: Sequence[float] = (), allowed: float = 0.05, **facts: object) -> str:
    of = row(**facts)
    return AgainstPublished(row=of, change=change_from(of, means, times), allowed=allowed).verdict


def verdict_after(groups: Sequence[Sequence[float]], mean_s: float) -> tuple[str, str]:
    """Verdict and sentence about one run that follows these repeats."""
    judged = IntervalJudge().after_repeats(groups).against_reference(row(), [mean_s], steady(mean_s), 0.05)
    assert judged is not None
    return judged.verdict, judged.sentence


def test_earlier_repeats_on_the_machine_replace_the_variation_of_published_ones() -> None:
    quiet, restless = [[1.0, 1.0001, 0.9999, 1.0]], [[1.0, 1.03, 0.97], [1.1, 1.12]]
    assert verdict_after([], 1.063) == (
        "slower",
        "slower than published: +6.3 % step time (95 % interval +5.2 to +7.4 %, variation from run to run as of "
        "published repeats), more than the 5 % that are allowed",
    )
    assert verdict_after(restless, 1.063)[0] == "inconclusive"
    assert "as of 5 earlier repeats here, 2.6 %" in verdict_after(restless, 1.063)[1]
    assert verdict_after([], 1.055)[0] == "inconclusive" and verdict_after(quiet, 1.055)[0] == "slower"


def test_one_run_is_slower_only_if_run_to_run_variation_cannot_explain_it() -> None:
    """95 % of the pairs of MLPerf's repeats differ by at most 1.05 %."""
    assert verdict([1.08], steady(1.08)) == "slower"
    assert verdict([1.055], steady(1.055)) == "inconclusive"
    assert verdict([1.045], steady(1.045)) == "inconclusive"
    assert verdict([1.03], steady(1.03)) == "within" and verdict([0.5], steady(0.5)) == "within"
    assert verdict([1.03], steady(1.03), allowed=0.0) == "slower"


def test_the_rounding_of_the_published_figure_is_part_of_its_uncertainty() -> None:
    assert verdict([1.08], steady(1.08), step_time_rounding_s=0.05) == "inconclusive"


def test_repeats_replace_the_assumed_variation_by_their_own() -> None:
    assert verdict([1.055, 1.0551, 1.0549]) == "slower"
    assert verdict([1.02, 1.09, 1.06]) == "inconclusive"


def test_the_sentence_claims_no_more_than_the_test() -> None:
    def says(mean_s: float) -> str:
        return AgainstPublished(row=row(), change=change_from(row(), [mean_s], steady(mean_s)), allowed=0.05).sentence()

    assert says(1.08) == (
        "slower than published: +8.0 % step time (95 % interval +6.9 to +9.1 %, variation from run to run as of "
        "published repeats), more than the 5 % that are allowed"
    )
    assert says(1.0) == (
        "not slower than published by more than 5 %: +0.0 % step time (95 % interval -1.0 to +1.1 %, "
        "variation from run to run as of published repeats)"
    )
    assert says(1.05).startswith("no verdict against the published figure: +5.0 % step time (95 % interval +")


@pytest.mark.parametrize(
    ("changes", "facts", "seconds", "expected"),
    [
        ({}, {"recipe": "plain"}, 2.0, "slower"),
        ({}, {"recipe": "old"}, 2.0, None),
        ({}, {"step_time_s": None}, 2.0, None),
        ({"proxy": True}, {}, 2.0, None),
        ({"gpu_type": "cpu"}, {"gpu_type": "cpu"}, 2.0, None),
    ],
)
def test_only_a_comparable_run_of_the_published_work_is_judged(
    make_spec: Callable[..., RunSpec], changes: dict[str, object], facts: dict[str, object], seconds: float,
    expected: str | None,
) -> None:  # fmt: skip
    spec = make_spec(size="1b", window="last").replace(**changes)
    recipe = Recipe(name="plain", title="The recipe", released="1.0", source="test", driver="python", rows=())
    of = Workload(name="line", title="Line", folder="x", sizes={}, recipes=(recipe,), references=(row(**facts),))
    results = [result(spec, seconds), result(spec, seconds * 1.001)]
    found = against_published(results, spec, of, WORKSPACE, 0.05)
    assert (found.verdict if found else None) == expected
    unstable = [one.replace(stability=Stability(verdict="noisy", reason="x")) for one in results]
    assert against_published(unstable, spec, of, WORKSPACE, 0.05) is None


def result(spec: RunSpec, seconds: float) -> Result:
    entry = Record(id="x1", run_id="r", spec=spec, created=0.0, llmbx_version="0", command=("run",))
    figures = measure(spec, [Step(number=20, time_s=seconds, total=20, loss=1.0)], None)
    found = build_result(entry, JobStatus(state="ended", exit_code=0), figures)
    stable: Result = found.replace(stability=Stability(verdict="stable", reason="x"))
    return stable
