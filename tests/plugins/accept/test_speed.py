"""The speed of nodes: what ranks wrote, judged by the other nodes and by the peaks of the hardware."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmbx.api import RunSpec
from llmbx_accept.speed.judge import Measured, SpeedReport, judge, read_samples
from llmbx_accept.speed.measure import PROGRAM, cost
from llmbx_accept.suite.item import Item, Outcome, Site
from llmbx_accept.suite.kinds import speed

HERE = Path(__file__).parent


def line(node: str, measure: str = "gemm.bf16", rate: float = 700.0, local: int = 0, **more: Any) -> str:
    """One measurement as a rank writes it: 20 repetitions that vary by 0.3 %."""
    noise = random.Random(f"{node} {measure} {local}")
    rates = [rate * (1 + noise.gauss(0, 0.003)) for _ in range(20)]
    table = {
        "node": node,
        "rank": 0,
        "local_rank": local,
        "measure": measure,
        "unit": "TFLOP/s",
        "rates": rates,
        **more,
    }
    return json.dumps(table) + "\n"


def report(lines: list[str], gpu_type: str | None = None) -> SpeedReport:
    samples, missing = read_samples(lines)
    rows = tuple(judge(samples, gpu_type))
    return SpeedReport(rows=rows, not_measured=missing, nodes=tuple(dict.fromkeys(row.node for row in rows)))


def test_one_slow_gpu_of_a_node_is_named_and_healthy_nodes_are_not() -> None:
    lines = [
        line(f"n{node}", rate=640 if (node, gpu) == (3, 5) else 700, local=gpu) for node in range(8) for gpu in range(8)
    ]
    judged = report(lines)
    assert judged.slow == ("n3",) and judged.exit_code == 3
    (row,) = [row for row in judged.rows if row.slow]
    assert row.reason is not None and row.reason.startswith("rank 5: 9.")
    assert row.low is not None and row.high is not None and row.low < 700 / 640 - 1 < row.high


def test_a_single_gpu_that_is_three_times_too_slow_is_found_by_its_peak() -> None:
    (slow,) = report([line("n1", rate=300)], "h100").rows
    assert slow.slow and slow.reason == "30 % of 989 TFLOP/s, the peak of h100"
    (healthy,) = report([line("n1", rate=700)], "h100").rows
    assert healthy.slow is False and healthy.expected == 989


def test_two_nodes_that_differ_are_not_decided() -> None:
    judged = report([line("n1"), line("n2", rate=500)])
    assert not judged.slow and [row.slow for row in judged.rows] == [None, None]


def test_what_differs_by_less_than_nodes_vary_is_not_decided() -> None:
    rates = (700, 640, 760, 600, 720, 560)
    judged = report([line(f"n{number}", rate=rate) for number, rate in enumerate(rates)])
    assert not judged.slow and judged.exit_code == 5


def test_a_rank_that_was_killed_loses_its_last_line_only() -> None:
    whole = line("n1") + json.dumps({"measure": "fp8", "missing": "no GPU"}) + "\n"
    samples, missing = read_samples([whole + line("n1", "copy")[:40]])
    assert [sample.measure for sample in samples] == ["gemm.bf16"] and missing == {"fp8": "no GPU"}


def test_the_plan_says_what_it_takes() -> None:
    assert cost(16, 30, 8).gpu_hours == pytest.approx(16 * 8 * cost(16, 30, 8).minutes / 60)
    assert cost(1, 30, 8).minutes < cost(16, 30, 8).minutes


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program of the nodes, with the stand-in for PyTorch."""
    monkeypatch.syspath_prepend(str(HERE.parents[1] / "fixtures" / "stand_in_torch"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    import llmbx_accept.speed

    path = Path(llmbx_accept.speed.__file__).parent / "node" / PROGRAM
    spec = importlib.util.spec_from_file_location("measure_node", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        sys.modules.pop(name)


@pytest.mark.parametrize("nodes", [2, 5, 16])
def test_in_each_round_a_node_has_one_partner_and_never_the_same_twice(program: Any, nodes: int) -> None:
    met: set[tuple[int, int]] = set()
    for row in program.partners(nodes, nodes):
        for node, partner in enumerate(row):
            assert partner == -1 or row[partner] == node
            assert (node, partner) not in met
            met.add((node, partner))
    assert len({pair for pair in met if pair[1] >= 0}) == nodes * (nodes - 1)


def test_repetitions_end_when_the_mean_is_known(program: Any) -> None:
    assert program.narrow([1.0, 1.001, 0.999, 1.0, 1.0], 0.01)
    assert not program.narrow([1.0, 1.2, 0.8, 1.1, 0.9], 0.01)


def test_a_slow_group_accuses_none_of_its_nodes_and_a_slow_pair_not_the_partner() -> None:
    groups = [line(f"n{node}", "tree.2", 30 if node in (4, 5) else 50) for node in range(8)]
    rounds = [
        line(f"n{node}", "pair", 30 if 5 in (node, node ^ distance) else 50)
        for distance in (1, 2, 4)
        for node in range(8)
    ]
    judged = report([*groups, *rounds])
    assert judged.slow == ("n5",)
    assert {row.node for row in judged.rows if row.reason and row.measure == "tree.2"} == {"n4", "n5"}


def test_pairs_are_judged_by_what_the_item_before_measured(
    make_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = ("n1", "n2", "n3", "n4")
    samples, _ = read_samples([line(node, measure, partner=0) for node in nodes for measure in ("copy", "pair")])
    measured = Measured(samples=tuple(samples), not_measured={}, nodes=nodes, gpu_type=None, folder="x")
    evidence = msgspec.to_builtins(measured)
    both = tuple(Item(key=kind, kind=kind, nodes=nodes, spec=make_spec()) for kind in ("speed", "pairs"))
    before = Outcome(key="speed", verdict="pass", evidence=evidence)
    nothing: Any = None
    site = Site(nothing, nothing, nodes, "cpu", 1, 4, items=both, outcomes={"speed": before})
    monkeypatch.setattr(speed, "measure_speed", nothing)
    outcome = speed.KIND.check(both[1], site)
    assert outcome.evidence == evidence and {row[1] for row in outcome.tables[0].rows} == {"pair"}
    shorter = both[1].replace(settings={"budget_s": 5})
    with pytest.raises(AttributeError):  # it measures, for another time
        speed.KIND.check(shorter, site)
