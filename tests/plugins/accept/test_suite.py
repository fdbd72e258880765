"""Suites as data, what they plan on a site, and how the criteria judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmbx.api import Bounds, Expected, Reference, Result, RunSpec, Stability, UsageError
from llmbx.api.verbs import Request, load_workspace
from llmbx_accept.facts.checks import checks_for
from llmbx_accept.facts.judge import Asked, NodeAnswer
from llmbx_accept.suite.criteria import family, judged_outcome
from llmbx_accept.suite.definition import read_suite, shipped
from llmbx_accept.suite.item import Criteria, Item, Judged, Outcome, Site
from llmbx_accept.suite.kinds import doctor
from llmbx_accept.suite.plan import items_of
from llmbx_accept.suite.verdict import exit_code, summarize

CELLS = {"gb300": 14, "gb200": 13, "b300": 13, "b200": 12, "h100": 5}
"""Cells of exemplar-performance v26.08 at 512 GPUs (exemplar.yaml), by GPU type: 57."""

WORKLOAD = "title = 'x'\n[[items]]\nkind = 'workload'\nworkload = 'grok1'\n"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Site]:
    monkeypatch.setenv("LLMB_INSTALL", str(tmp_path))
    monkeypatch.setenv("LLMBX_CONFIG", "/dev/null")

    def make(gpu_type: str = "cpu", nodes: int = 1, per_node: int = 8, **more: Any) -> Site:
        per_node = 1 if gpu_type == "cpu" else per_node
        launcher = "local" if gpu_type == "cpu" else "slurm"
        request = Request(workload="", gpu_type=gpu_type, launcher=launcher, gpus_per_node=per_node)
        return Site(load_workspace(), request, (), gpu_type, per_node, nodes, **more)

    return make


def items(name: str, site: Site) -> tuple[Item, ...]:
    return items_of(read_suite(name)[1], site)


def test_the_57_cells_resolve_with_their_expected_hours(site: Callable[..., Site]) -> None:
    planned = {name: items("exemplar", site(name, per_node=4)) for name in CELLS}
    assert {name: len(cells) for name, cells in planned.items()} == CELLS and sum(CELLS.values()) == 57
    for cell in [cell for cells in planned.values() for cell in cells]:
        assert cell.spec is not None and cell.spec.gpus == 512 and cell.criteria.predicted
        assert cell.hours and cell.gpu_hours == 512 * cell.hours, cell.key


def test_an_outcome_of_nodes_is_derived_again_from_their_answers() -> None:
    checks = checks_for("cpu")
    answers = [NodeAnswer(node=node, facts={"memory.total": total}) for node, total in (("a", 9), ("b", 9), ("c", 1))]
    asked = Asked(answers=tuple(answers), checks=checks, expected={})
    item = Item(key="doctor", kind="doctor")
    kept = doctor.judged(item, asked.inspection).replace(evidence=msgspec.to_builtins(asked))
    kept = Outcome.decoded(kept.encoded())
    assert kept.verdict == "fail" and [*kept.suspects] == ["c"]
    site: Any = None
    assert doctor.KIND.derive(item, kept, (), site) == kept
    kept.evidence["answers"][2]["facts"]["memory.total"] = 9
    derived = doctor.KIND.derive(item, kept, (), site)
    assert derived is not None and not derived.suspects
    assert doctor.KIND.derive(item, kept.replace(evidence={}), (), site) is None


def test_scaling_goes_from_one_node_to_all_by_doubling(site: Callable[..., Site]) -> None:
    planned = items("scaling", site("h100", nodes=8))
    sizes = [item.spec.gpus for item in planned if item.spec is not None and item.spec.dtype == "bf16"]
    assert sizes == [8, 16, 32, 64]


@pytest.mark.parametrize("name", sorted(shipped()))
def test_without_a_gpu_a_suite_has_minis_only(name: str, site: Callable[..., Site]) -> None:
    planned = items(name, site())
    specs = [item.spec for item in planned if item.spec is not None]
    assert specs and all(spec.mini and spec.gpu_type == "cpu" for spec in specs)
    assert len({item.key for item in planned}) == len(planned)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = 'x'\nitems = []", "no \\[\\[items\\]\\]"),
        ("title = 'x'\n[[items]]\nkind = 'doctr'", "unknown value 'doctr' .*did you mean 'doctor'"),
        ("title = 'x'\n[[items]]\nkind = 'workload'", "the key 'workload' is missing"),
        (
            WORKLOAD + "gpu = 8",
            "unknown key 'gpu'.*did you mean 'gpus'",
        ),
        (WORKLOAD + "gpus = 'nod'", "did you mean 'node'"),
        (WORKLOAD + "gpus = 0", "expected a number from 1 on"),
        (
            "title = 'x'\n[[items]]\nkind = 'doctor'\nworkload = 'grok1'",
            "it has no workload",
        ),
        ("title = 'x'\n[[items]]\nkind = 'workload'\nworkload = 'grokk'", "did you mean 'grok1'"),
        (
            WORKLOAD + "criteria = { publish = '95 %' }",
            "unknown key 'publish'.*did you mean 'published'",
        ),
        (
            WORKLOAD + "criteria = { published = 'much' }",
            "expected a percentage",
        ),
        (WORKLOAD + "gpus = 3", "1 items cannot run"),
    ],
)
def test_a_wrong_suite_is_refused_with_a_hint(
    text: str, message: str, site: Callable[..., Site], tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        items(str(path), site("h100"))


def test_an_unknown_suite_and_gpu_type_are_refused_with_what_there_is(
    site: Callable[..., Site],
) -> None:
    with pytest.raises(UsageError, match="did you mean 'smoke'"):
        read_suite("smok")
    with pytest.raises(UsageError, match="nothing for h200, only for"):
        items("exemplar", site("h200"))


def result(step_s: float, tokens: float = 100.0, **changes: Any) -> Result:
    values: dict[str, Any] = {
        "run_id": "x_1",
        "status": "completed",
        "data_valid": True,
        "comparable": True,
        "tokens_per_s_per_gpu": tokens,
        "stability": Stability(verdict="stable", reason=""),
    }
    made = Result(**{**values, **changes})
    return made.replace(step_time_s=made.step_time_s.replace(mean=step_s))


ROW = Reference(size="8b", dtype="bf16", gpu_type="h100", gpus=8, step_time_s=1.0, source="made up")
NARROW = Expected(step_time_s=Bounds(value=1.0, low=0.9, high=1.1))


@pytest.mark.parametrize(
    ("criteria", "measured", "verdict"),
    [
        (Criteria(published=0.95), result(1.05), "pass"),
        (Criteria(published=0.95), result(1.06), "fail"),
        (Criteria(published=0.95), result(1.0, comparable=False), "not checked"),
        (
            Criteria(published=0.95),
            result(1.0, stability=Stability(verdict="trend", reason="")),
            "not checked",
        ),
        (Criteria(predicted=True), result(1.1, expected=NARROW), "pass"),
        (Criteria(predicted=True), result(1.11, expected=NARROW), "fail"),
        (Criteria(predicted=True), result(1.0), "not checked"),
        (Criteria(), result(1.0), "pass"),
        (Criteria(), result(1.0, data_valid=False), "fail"),
        (Criteria(), result(1.0, status="failed"), "fail"),
        (Criteria(published=0.95), result(0.5, status="timeout"), "fail"),
    ],
)
def test_what_is_not_known_never_passes(
    criteria: Criteria, measured: Result, verdict: str, make_spec: Callable[..., RunSpec]
) -> None:
    item = Item(key="x", kind="workload", criteria=criteria, spec=make_spec(mini=False))
    assert judged_outcome(item, [measured], ROW, {}).verdict == verdict
    assert judged_outcome(item.replace(repeats=2), [measured], ROW, {}).verdict != "pass", "a repeat is missing"


@pytest.mark.parametrize(("rate", "verdict"), [(95.0, "pass"), (85.0, "fail"), (None, "not checked")])
def test_efficiency_is_that_of_a_gpu_on_the_fewest_gpus_of_the_plan(
    rate: float | None, verdict: str, make_spec: Callable[..., RunSpec]
) -> None:
    item = Item(
        key="x",
        kind="workload",
        criteria=Criteria(efficiency=0.9),
        spec=make_spec(mini=False, gpus=16),
    )
    outcome = judged_outcome(item, [result(1.0)], None, {family(item): {8: 100.0, 16: rate}})
    assert outcome.verdict == verdict
    base_missing = judged_outcome(item, [result(1.0)], None, {family(item): {8: None, 16: 90.0}})
    assert base_missing.verdict == "not checked"


@pytest.mark.parametrize(
    ("outcomes", "code", "verdict"),
    [
        ({}, 5, "undecided"),
        (
            {"a": Outcome(key="a", verdict="pass"), "b": Outcome(key="b", verdict="pass")},
            0,
            "accepted",
        ),
        ({"a": Outcome(key="a", verdict="pass")}, 5, "undecided"),
        (
            {"a": Outcome(key="a", verdict="fail"), "b": Outcome(key="b", verdict="not checked")},
            3,
            "not accepted",
        ),
        (
            {"a": Outcome(key="a", verdict="fail", judged=(Judged(criterion="runs", verdict="fail"),))},
            1,
            "not accepted",
        ),
        ({"a": Outcome(key="a", verdict="fail", infrastructure=True)}, 4, "not accepted"),
    ],
)
def test_only_an_acceptance_in_which_each_item_passed_ends_with_0(
    outcomes: dict[str, Outcome], code: int, verdict: str
) -> None:
    both = [Item(key="a", kind="doctor"), Item(key="b", kind="speed")]
    assert exit_code(both, outcomes) == code
    assert summarize("x", "x", "cpu", both, outcomes, {}).verdict == verdict


def test_suspects_are_named_once_with_the_item_that_found_them() -> None:
    both = [Item(key="a", kind="doctor"), Item(key="b", kind="speed")]
    outcomes = {
        "a": Outcome(key="a", verdict="fail", suspects={"n6": "another driver"}),
        "b": Outcome(key="b", verdict="fail", suspects={"n6": "slow", "n2": "slow"}),
    }
    summary = summarize("x", "x", "cpu", both, outcomes, {})
    assert summary.exclude == {"n2": "b: slow", "n6": "a: another driver"}
