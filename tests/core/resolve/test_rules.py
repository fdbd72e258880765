"""The common rules of a run: each violation is found, with a fix."""

from __future__ import annotations

from typing import Any

import pytest

from llmbx.model import Finding, ModelShape, Parallelism, RunSpec
from llmbx.resolve.rules import common_findings, emulated_bf16

SHAPE = ModelShape(
    layers=126, hidden_size=16384, ffn_hidden_size=53248, heads=128, query_groups=8, vocab_size=128256,
    sequence_length=8192,
)  # fmt: skip
SPEC = RunSpec(
    plugin="toy", workload="toy", folder="toy", size="405b", dtype="fp8", gpu_type="h100", gpus=1024, gpus_per_node=8,
    recipe="r", driver="toy", model=SHAPE, parallelism=Parallelism(tp=8, pp=8, cp=2, dp=8, vp=8), micro_batch_size=1,
    global_batch_size=512, gradient_accumulation=64, steps=50, window="auto", runtime="auto", launcher="slurm",
)  # fmt: skip


def spec(shape: dict[str, Any] | None = None, letters: dict[str, Any] | None = None, **changes: Any) -> RunSpec:
    return SPEC.replace(
        model=SHAPE.replace(**(shape or {})), parallelism=SPEC.parallelism.replace(**(letters or {})), **changes
    )


def test_a_sound_run_has_no_findings() -> None:
    assert common_findings(SPEC) == []


BROKEN = {
    "topology": (
        spec(gpus=192, letters={"dp": 1}),
        "TP 8 x PP 8 x CP 2 = 128 does not divide 192 GPUs",
        "use --gpus 128 or 256, or a smaller --set tp, pp or cp",
    ),
    "gbs": (
        spec(global_batch_size=700, letters={"dp": 512, "tp": 1, "pp": 2, "cp": 1, "vp": 1}),
        "the global batch of 700 is not a multiple of MBS 1 x DP 512 = 512",
        "use --set gbs=512 or --set gbs=1024",
    ),
    "ga": (
        spec(gradient_accumulation=32),
        "gradient accumulation is 32, but GBS / (MBS x DP) = 64",
        "use --set gbs=256",
    ),
    "heads": (
        spec(shape={"heads": 4, "query_groups": 4}),
        "TP 8 does not divide the 4 attention heads",
        "use --set tp=1, --set tp=2 or --set tp=4",
    ),
    "query_groups": (
        spec(letters={"tp": 4}, shape={"heads": 36, "query_groups": 6}, gpus=512),
        "TP 4 is neither a divisor nor a multiple of the 6 query groups",
        "use --set tp=1, --set tp=2, --set tp=3 or --set tp=6",
    ),
    "vp": (
        spec(letters={"pp": 1, "dp": 64, "vp": 12}, gradient_accumulation=8),
        "VP 12 requires pipeline parallelism, but PP is 1",
        "use --set vp=1, or --set pp above 1",
    ),
    "ep": (
        spec(shape={"experts": 12}, letters={"ep": 8}),
        "EP 8 does not divide the 12 experts",
        "use --set ep=1, --set ep=2, --set ep=3, --set ep=4, --set ep=6 or --set ep=12",
    ),
    "gpus_per_node": (
        spec(gpus_per_node=6),
        "1024 GPUs do not fill nodes of 6",
        "use --gpus 1020 or 1026, or another --gpus-per-node",
    ),
    "tp": (spec(letters={"tp": 0}), "TP is 0", "use --set tp=N with N >= 1"),
    "mbs": (spec(micro_batch_size=0), "MBS is 0", "use --set mbs=N with N >= 1"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_found_with_its_fix(rule: str) -> None:
    broken, problem, fix = BROKEN[rule]
    assert common_findings(broken) == [Finding(rule=rule, problem=problem, fix=fix)]


def test_parallel_experts_of_a_dense_model() -> None:
    found = common_findings(spec(letters={"ep": 2, "etp": 4}))
    assert [(f.rule, f.fix) for f in found] == [("ep", "remove --set ep"), ("etp", "remove --set etp")]
    assert found[0].problem == "EP 2 needs experts, but toy 405b has none"
    assert common_findings(spec(letters={"ep": 1, "etp": 1})) == []


def test_heads_that_do_not_share_query_groups() -> None:
    found = common_findings(spec(shape={"heads": 8, "query_groups": 3}, letters={"tp": 1, "dp": 64},
                                 gradient_accumulation=8))  # fmt: skip
    assert [(f.rule, f.problem) for f in found] == [
        ("query_groups", "8 attention heads do not share 3 query groups evenly")
    ]


def test_query_groups_may_be_fewer_than_tp() -> None:
    assert common_findings(spec(shape={"query_groups": 4})) == []


def test_all_findings_come_at_once_with_those_of_resolving_first() -> None:
    finding = Finding(rule="gpus", problem="no such scale", fix="use --gpus 1024")
    broken = spec(findings=(finding,), gpus_per_node=6, shape={"heads": 4, "query_groups": 4}, global_batch_size=7)
    assert [f.rule for f in common_findings(broken)] == ["gpus", "gpus_per_node", "gbs", "heads"]


def test_a_batch_smaller_than_one_round_is_raised_to_it() -> None:
    found = common_findings(spec(global_batch_size=3))
    assert [f.fix for f in found] == ["use --set gbs=8"]


@pytest.mark.parametrize(("cores", "most"), [(1, 16), (2, 24)])
def test_more_ranks_than_the_machine_could_start_are_refused(
    cores: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)

    def found(gpus: int, launcher: str) -> list[Finding]:
        letters = {"tp": 1, "pp": 1, "cp": 1, "vp": 1, "dp": gpus}
        asked = spec(letters=letters, gpu_type="cpu", gpus=gpus, gpus_per_node=gpus, launcher=launcher)
        return [finding for finding in common_findings(asked) if finding.rule == "local_ranks"]

    assert found(most, "local") == found(most + 1, "slurm") == []
    (finding,) = found(most + 1, "local")
    assert finding.problem == f"{most + 1} ranks are too many for this machine's {cores} cores"
    assert finding.fix == f"use at most --gpus {most}, or a launcher for several machines" and not finding.warning


def test_rules_that_divide_by_a_value_below_1_are_not_checked_after_it() -> None:
    broken = spec(letters={"tp": 0, "pp": -1}, micro_batch_size=0, gpus_per_node=6)
    assert [finding.rule for finding in common_findings(broken)] == ["tp", "pp", "mbs"]


def test_the_number_of_ranks_matters_only_where_they_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """`llmbx show` describes runs of other machines, too."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    many = spec(launcher="local")
    assert [finding.rule for finding in common_findings(many)] == ["local_ranks"]
    assert common_findings(many, here=False) == []


def test_a_run_may_be_smaller_than_a_node() -> None:
    letters = {"tp": 2, "pp": 1, "cp": 1, "vp": 1, "dp": 2}
    assert common_findings(spec(gpus=4, letters=letters, gradient_accumulation=256)) == []


def test_a_batch_is_not_judged_before_the_topology_is_right() -> None:
    broken = spec(letters={"dp": 7}, global_batch_size=511)
    assert [finding.rule for finding in common_findings(broken)] == ["topology"]


@pytest.mark.parametrize(
    ("changes", "supported", "warned"),
    [
        ({}, False, True),
        ({}, True, False),
        ({}, None, False),
        ({"dtype": "fp32"}, False, False),
        ({"gpu_type": "h100"}, False, False),
        ({"launcher": "slurm"}, False, False),
    ],
    ids=["emulated", "supported", "unknown", "another dtype", "a GPU", "another machine"],
)
def test_bf16_that_this_cpu_emulates_is_a_warning(
    changes: dict[str, Any], supported: bool | None, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmbx.resolve.rules.has_bf16", lambda environ: supported)
    here = spec(**{"dtype": "bf16", "gpu_type": "cpu", "launcher": "local", **changes})
    problem = "this CPU has no BF16 instructions: a step takes 2 to 5 times as long as with fp32"
    finding = Finding(rule="emulated_bf16", problem=problem, fix="omit --dtype to run in fp32", warning=True)
    assert emulated_bf16(here, "2 to 5") == ([finding] if warned else [])
