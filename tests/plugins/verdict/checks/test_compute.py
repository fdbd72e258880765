"""What two passes of the last step say about a rank, from what the ranks recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmbx.model import Evidence, RunSpec, Step
from llmbx.run.checks import decide
from llmbx.run.verdict import Verdict
from llmbx.testing import sample_spec
from llmbx_verdict.checks.compute import CHECKS

ON: dict[str, Any] = {"verdict": {"verify_compute": True}}


@pytest.fixture
def spec() -> RunSpec:
    return sample_spec(plugin_settings=ON)


def record(folder: Path, rank: int, *differing: str, total: str = "a", ranks: tuple[int, ...] = (0, 1, 2, 3)) -> None:
    """What a rank of node n0 or n1 recorded."""
    kinds = ("loss", "gradient", "weight")
    counts = {kind: sum(name.startswith(kind) for name in differing) for kind in kinds}
    data = {
        "rank": rank, "node": f"n{rank // 2}", "step": 50, "exact": True, "differ": counts, "differing": differing,
        "compared": {"loss": 1, "gradient": 9, "weight": 30}, "weights": [{"of": "", "ranks": ranks, "sum": total}],
    }  # fmt: skip
    file = folder / "verify" / f"rank-{rank}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(data))


def judged(folder: Path, spec: RunSpec, ended_well: bool = True) -> tuple[Verdict, list[tuple[str, str]]]:
    """The verdict on a run that would be completed, and what the check says."""
    evidence = Evidence(steps=(Step(number=1),), spec=spec, run_dir=folder, ended_well=ended_well)
    verdict, outcomes = decide(Verdict(status="completed", data_valid=True), evidence, CHECKS)
    return verdict, [(outcome.outcome, outcome.text) for outcome in outcomes]


def test_ranks_that_agree_pass(tmp_path: Path, spec: RunSpec) -> None:
    for rank in range(4):
        record(tmp_path, rank)
    assert judged(tmp_path, spec) == (Verdict(status="completed", data_valid=True), [])


def test_a_rank_that_computes_another_result_is_named_with_its_node(tmp_path: Path, spec: RunSpec) -> None:
    for rank in range(4):
        record(tmp_path, rank, *(["loss", "gradient bucket 3"] if rank == 3 else []))
    verdict, _ = judged(tmp_path, spec)
    assert (verdict.status, verdict.data_valid) == ("failed", False)
    assert "rank 3 on n1 computed step 50 twice with different results" in (verdict.cause or "")
    assert verdict.failure is not None
    assert (verdict.failure.rank, verdict.failure.node) == (3, "n1")


def test_the_rank_with_other_weights_than_most_of_its_peers_is_named(tmp_path: Path, spec: RunSpec) -> None:
    for rank in range(4):
        record(tmp_path, rank, total="b" if rank == 1 else "a")
    verdict, _ = judged(tmp_path, spec)
    assert "rank 1 on n0 has other weights than its peers (0, 2, 3)" in (verdict.cause or "")


def test_of_two_ranks_with_different_weights_both_are_named(tmp_path: Path, spec: RunSpec) -> None:
    for rank in range(2):
        record(tmp_path, rank, total=str(rank), ranks=(0, 1))
    verdict, _ = judged(tmp_path, spec)
    assert "ranks 0-1 on n0 have different weights, and which of them are wrong is not known" in (verdict.cause or "")
    assert verdict.failure is not None
    assert (verdict.failure.rank, verdict.failure.ranks) == (None, (0, 1))


def test_weights_that_changed_between_the_passes_say_which_of_two_ranks_it_was(tmp_path: Path, spec: RunSpec) -> None:
    record(tmp_path, 0, total="a", ranks=(0, 1))
    record(tmp_path, 1, "weight layers.0", total="b", ranks=(0, 1))
    _, said = judged(tmp_path, spec)
    assert [text.partition(" computed")[0] for _, text in said] == ["rank 1 on n0"]


def test_what_was_not_compared_is_a_warning(tmp_path: Path, spec: RunSpec) -> None:
    verdict, said = judged(tmp_path, spec)
    assert verdict.status == "completed"
    reason = f"{spec.plugin} does not repeat a step"
    assert said == [("warning", f"the last step was not computed twice: {reason}; leave out --verify-compute")]
    (tmp_path / "verify").mkdir()
    (tmp_path / "verify/rank-0.json").write_text('{"rank": 0, "node": "n0", "reason": "the last step is profiled"}')
    assert "twice: the last step is profiled;" in judged(tmp_path, spec)[1][0][1]


def test_a_rank_without_a_record_is_a_warning(tmp_path: Path, spec: RunSpec) -> None:
    for rank in (0, 1, 3):
        record(tmp_path, rank)
    (tmp_path / "verify/rank-2.json").write_text("[[")
    assert judged(tmp_path, spec)[1] == [("warning", "1 rank did not record the second pass: 2; look at their logs")]


def test_a_run_that_ended_early_has_nothing_to_compare(tmp_path: Path, spec: RunSpec) -> None:
    _, said = judged(tmp_path, spec, ended_well=False)
    assert said == [("not possible", "the training did not end its last step")]


def test_without_the_setting_nothing_is_asked(tmp_path: Path) -> None:
    record(tmp_path, 0, "loss")
    assert judged(tmp_path, sample_spec())[1] == []
