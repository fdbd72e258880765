"""The hardware that a run had against the hardware that it was asked for, as a stand-in for nvidia-smi tells it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmbx.launchers.nodes import QUERY, Node, parse_gpu, read_nodes
from llmbx.launchers.script import shell
from llmbx.launchers.shim import render_shim
from llmbx.model import Launch, Phase, RunSpec, Step
from llmbx.model.evidence import Evidence
from llmbx.model.result import CheckOutcome
from llmbx.model.run_folder import NODE_SCRIPT as SCRIPT
from llmbx.record.folder import read_result
from llmbx.run.assess import gather
from llmbx.run.checks import decide, run_checks, texts
from llmbx.run.collect import Log
from llmbx.run.verdict import Verdict
from llmbx_verdict.judge import IntervalJudge

from ....run_factory import RunFactory, noise

H100 = "NVIDIA H100 80GB HBM3, 550.54.15, 700.00, 1980, 2619, 1980, 700.00, 1980"
GPU_CHECKS = ("gpu-type", "gpu-count", "gpu-power", "gpu-clock", "gpu-mixed", "gpu-driver", "gpu-unused")

Asked = Callable[..., RunSpec]


def node(name: str, *gpus: str) -> Node:
    return Node(host=name, gpus=tuple(map(parse_gpu, gpus)))


def changed(**values: str) -> str:
    """The line of one H100 with other values: name, driver, power, max, memory, clock, default_power, default_clock."""
    names = ("name", "driver", "power", "max", "memory", "clock", "default_power", "default_clock")
    return ", ".join(values.get(name, value) for name, value in zip(names, H100.split(", "), strict=True))


GOOD = node("n1", *[H100] * 8)


def outcomes(spec: RunSpec, *nodes: Node, gpus: tuple[str, ...] | None = None) -> dict[str, CheckOutcome]:
    found = run_checks(Evidence(steps=(Step(number=0),), spec=spec, nodes=nodes, gpus=gpus), IntervalJudge().checks())
    return {outcome.check: outcome for outcome in found if outcome.check in GPU_CHECKS}


@pytest.fixture
def asked(make_spec: Asked) -> RunSpec:
    return make_spec(gpu_type="h100", gpus=16, gpus_per_node=8)


def test_nodes_as_asked_for_have_no_finding(asked: RunSpec) -> None:
    assert outcomes(asked, GOOD, GOOD.replace(host="n2")) == {}


@pytest.mark.parametrize(
    ("second", "check", "effect", "says"),
    [
        ([changed(name="NVIDIA H200")] * 8, "gpu-type", "not comparable",
         "the recipe is for H100 SXM, but node n2 has 8 x NVIDIA H200"),
        ([*[H100] * 7, changed(name="NVIDIA H100 PCIe")], "gpu-type", "not comparable",
         "node n2 has 1 x NVIDIA H100 PCIe"),
        ([H100] * 7, "gpu-count", "not comparable", "node n2 has 7 GPUs, but it should have 8"),
        ([*[H100] * 7, changed(power="500.00")], "gpu-power", "not comparable",
         "node n2: the power limit of 1 of 8 GPUs is 500.0 W, below the default 700.0 W"),
        ([changed(clock="1200")] * 8, "gpu-clock", "not comparable",
         "node n2: the application clock of 8 of 8 GPUs is 1200 MHz, below the default 1980 MHz"),
        ([changed(max="1755")] * 8, "gpu-mixed", "warning",
         "the GPUs have different highest SM clocks (MHz): 1980 (node n1), 1755 (node n2)"),
        ([changed(driver="535.1")] * 8, "gpu-driver", "warning",
         "the nodes have different GPU drivers: 550.54.15 (node n1), 535.1 (node n2)"),
        ([changed(power="800")] * 8, "gpu-mixed", "warning",
         "the GPUs have different power limits (W): 700.0 (node n1), 800 (node n2)"),
        ([*[H100] * 8, changed(power="500.00")], "gpu-unused", "warning",  # the ninth may be the lowered one
         "node n2 has 9 GPUs, and the run uses 8"),
    ],
)  # fmt: skip
def test_a_node_that_differs_is_named(asked: RunSpec, second: list[str], check: str, effect: str, says: str) -> None:
    found = outcomes(asked, GOOD, node("n2", *second))
    assert (found[check].outcome, says in found[check].text) == (effect, True), found[check].text


@pytest.mark.parametrize(
    "second",
    [
        [*[H100] * 8, changed(name="NVIDIA T400", power="30", default_power="31.32", clock="[N/A]", max="2100")],
        [changed(power="699.5")] * 8,
        [changed(clock="[N/A]", default_clock="[N/A]")] * 8,
    ],
)
def test_what_the_run_does_not_use_or_know_is_no_finding(asked: RunSpec, second: list[str]) -> None:
    found = outcomes(asked, GOOD, node("n2", *second))
    assert [outcome for outcome in found.values() if outcome.outcome != "not possible"] == []


def test_different_products_of_one_type_are_a_warning(make_spec: Asked) -> None:
    names = ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe")
    nodes = [node(f"n{k}", *[changed(name=name)] * 8) for k, name in enumerate(names)]
    found = outcomes(make_spec(gpu_type="a100", gpus=16, gpus_per_node=8), *nodes)
    assert found["gpu-mixed"].text == (
        "the GPUs have different products: NVIDIA A100-SXM4-80GB (node n0), NVIDIA A100 80GB PCIe (node n1)"
    )


def test_what_was_not_recorded_is_unknown_and_not_right(asked: RunSpec) -> None:
    for found in (outcomes(asked), outcomes(asked, node("n1"), node("n2"))):
        assert {name: outcome.outcome for name, outcome in found.items()} == dict.fromkeys(GPU_CHECKS, "not possible")
    half = outcomes(asked, GOOD, node("n2"))
    assert {name: outcome.text for name, outcome in half.items()} == dict.fromkeys(
        GPU_CHECKS, "only 1 of 2 nodes recorded their GPUs"
    )
    no_limits = outcomes(asked, *[node(name, *[changed(power="[N/A]")] * 8) for name in ("n1", "n2")])
    assert no_limits["gpu-power"].text == "nvidia-smi does not tell the power limit and its default"


def test_the_first_rank_counts_where_no_node_tells(make_spec: Asked) -> None:
    one = make_spec(gpu_type="h100", gpus=8, gpus_per_node=8)
    assert "gpu-type" not in outcomes(one, gpus=("NVIDIA H100 80GB HBM3",) * 8)
    found = outcomes(one, gpus=("NVIDIA H200",) * 8)
    assert found["gpu-type"].text == "the recipe is for H100 SXM, but the first rank saw NVIDIA H200"


def test_a_run_on_a_cpu_has_no_gpus_to_compare(make_spec: Asked) -> None:
    found = outcomes(make_spec(gpu_type="cpu"), node("n1", *[H100] * 8))
    assert {outcome.outcome for outcome in found.values()} == {"not possible"}


STAND_IN = """#!/bin/sh
# A stand-in for nvidia-smi, whose real answer needs a GPU: it prints the file of this node.
[ "$2" = --query-gpu={query} ] && exec cat "$LLMBX_NODE_RANK.csv"
exit 2
"""


def test_from_the_ranks_of_each_node_to_the_finding(tmp_path: Path, asked: RunSpec) -> None:
    launch = Launch(phases=(Phase(role="train", argv=("/bin/true",)),), nodes=2, ranks_per_node=8, gpus_per_rank=1)
    (tmp_path / "rank-train.sh").write_text(render_shim(launch.phases[0], launch))
    (tmp_path / SCRIPT).write_text(shell(SCRIPT).replace("QUERY", ",".join(QUERY)))
    (tmp_path / "nvidia-smi").write_text(STAND_IN.format(query=",".join(QUERY)))
    (tmp_path / "nvidia-smi").chmod(0o755)
    (tmp_path / "0.csv").write_text(f"{H100}\n" * 8)
    (tmp_path / "1.csv").write_text(f"{changed(power='350.00')}\n" * 8)
    path = f"{tmp_path}:{os.environ['PATH']}"
    for number in range(2):
        env = {"PATH": path, "LLMBX_NODE_RANK": str(number), "SLURMD_NODENAME": f"gpu{number}"}
        subprocess.run(["/bin/sh", tmp_path / "rank-train.sh"], check=True, env=env)
    found = outcomes(asked, *read_nodes(tmp_path))
    assert [(each.check, each.outcome) for each in found.values()] == [("gpu-power", "not comparable")]
    assert "node gpu1: the power limit of 8 of 8 GPUs is 350.0 W" in found["gpu-power"].text


def test_the_result_of_such_a_run_is_valid_and_not_comparable(run_factory: RunFactory) -> None:
    run = run_factory.put(noise(1, 1.0))
    (run.path / "node-0.txt").write_text("host gpu7\n" + f"gpu {changed(name='NVIDIA H200')}\n" * 8)
    result = read_result(run.path)
    assert result is not None and result.comparable
    found = gather(run, Log(steps=[Step(number=k, loss=9 - k / 9, time_s=1.0) for k in range(9)]), None)
    verdict, checked = decide(Verdict(status="completed", data_valid=True), found, IntervalJudge().checks())
    assert (verdict.status, verdict.data_valid) == ("completed", True)
    (reason,) = texts(checked, "not comparable")
    assert reason == "the recipe is for H100 SXM, but node gpu7 has 8 x NVIDIA H200 (check gpu-type)"
