"""What earlier runs say of nodes: who is slow, who broke, and nobody in healthy nights."""

from __future__ import annotations

import random

from llmbx_accept.memory.attendance import Attendance, NodeFailure
from llmbx_accept.memory.speed import speeds
from llmbx_accept.memory.standing import standings


def night(
    chance: random.Random, nodes: int, per_run: int, runs: int, slow: dict[int, float], spread: float = 0.0054
) -> list[Attendance]:
    """Runs of one work on random nodes n0, n1 …"""
    witnesses = []
    for run in range(runs):
        hosts = chance.sample(range(nodes), per_run)
        step_s = (1 + max(slow.get(host, 0.0) for host in hosts)) * chance.lognormvariate(0, spread)
        witnesses.append(
            Attendance(
                run=f"{chance.random()}",
                created=float(run),
                work=f"w{per_run}",
                hosts=tuple(f"n{host}" for host in hosts),
                step_s=step_s,
            )
        )
    return witnesses


def suspects(witnesses: list[Attendance]) -> set[str]:
    return {node.node for node in standings(witnesses) if node.suspect}


def test_in_a_hundred_healthy_nights_at_most_one_node_is_suspected() -> None:
    wrong = 0
    for seed in range(20):
        chance, witnesses = random.Random(seed), []
        for _ in range(5):
            witnesses += night(chance, 32, 4, 24, {})
            wrong += len(suspects(witnesses))
    assert wrong <= 1


def test_slow_nodes_are_found_and_those_beside_them_are_not() -> None:
    for seed in range(5):
        witnesses = night(random.Random(seed), 32, 4, 96, {3: 0.05, 7: 0.03})
        assert suspects(witnesses) == {"n3", "n7"}
    slow = speeds(witnesses)["n3"]
    assert slow.low < 0.05 < slow.high and slow.runs > 1


def test_one_slow_run_suspects_nobody() -> None:
    witnesses = night(random.Random(1), 16, 4, 24, {})
    assert not suspects([*witnesses, witnesses[0].replace(run="again", step_s=2.0)])


def test_nodes_that_always_ran_together_are_named_together() -> None:
    witnesses = night(random.Random(2), 16, 4, 30, {})
    pair = [witnesses[0].replace(run=f"pair{k}", hosts=("a1", "a2"), step_s=1.1 + k / 1000) for k in range(3)]
    nodes = {node.node: node for node in standings([*witnesses, *pair]) if node.suspect}
    assert set(nodes) == {"a1", "a2"} and "bisect" in (nodes["a1"].reason or "") and "a2" in (nodes["a1"].reason or "")


def test_a_failure_of_the_hardware_is_a_reason_and_one_of_the_program_is_none() -> None:
    broken = NodeFailure(host="n1", cause="NVRM: Xid 79: GPU has fallen off the bus", of_hardware=True)
    program = NodeFailure(host="n2", cause="ValueError: no such file", of_hardware=False)
    witnesses = [
        Attendance(run=name, created=1.0, work="w", hosts=("n1", "n2"), failures=(failure,))
        for name, failure in (("a", broken), ("b", program))
    ]
    nodes = {node.node: node for node in standings(witnesses)}
    assert nodes["n1"].suspect and "fallen off the bus" in (nodes["n1"].reason or "")
    assert not nodes["n2"].suspect and (nodes["n2"].failures, nodes["n2"].of_hardware) == (1, 0)
    assert nodes["n1"].slower is None


def gpus(*names: str) -> tuple[str, ...]:
    return tuple(f"GPU-{name}" for name in names)


def test_what_was_before_a_change_of_the_gpus_does_not_count() -> None:
    witnesses = night(random.Random(4), 16, 4, 60, {3: 0.08})
    after = [
        witness.replace(run=f"after {witness.run}", created=1e6 + witness.created, step_s=1.0)
        for witness in night(random.Random(5), 16, 4, 60, {})
    ]
    assert suspects(witnesses) == {"n3"}
    old, new = gpus("a", "b"), gpus("a", "c")
    before = [witness.replace(devices={"n3": old} if "n3" in witness.hosts else {}) for witness in witnesses]
    later = [witness.replace(devices={"n3": new} if "n3" in witness.hosts else {}) for witness in after]
    broken = NodeFailure(host="n3", cause="Xid 79", of_hardware=True)
    (repaired,) = [
        node for node in standings([before[0].replace(failures=(broken,)), *before[1:], *later]) if node.node == "n3"
    ]
    assert not repaired.suspect and repaired.of_hardware == 0
    assert repaired.changed is not None and repaired.changed.endswith("1 GPU replaced (GPU-b)")
    assert {node.node for node in standings([*before, *later])} == {f"n{number}" for number in range(16)}


def test_a_run_that_used_fewer_gpus_of_a_node_is_no_change() -> None:
    first = Attendance(run="a", created=1.0, work="w", hosts=("n1",), devices={"n1": gpus("a", "b")})
    fewer = first.replace(run="b", created=2.0, devices={"n1": gpus("b")})
    (node,) = standings([first, fewer, first.replace(run="c", created=3.0)])
    assert node.changed is None and node.runs == 3


def test_the_node_for_which_the_others_waited_is_counted_and_not_suspected() -> None:
    runs = [
        Attendance(
            run=f"r{n}", created=float(n), work="w", hosts=("n1", "n2"), slowest="n1" if n else None, compared=True
        )
        for n in range(10)
    ]
    first, second = standings(runs)
    assert (first.slowest, first.compared, second.slowest) == (9, 10, 0)
    assert not first.suspect


def test_a_node_with_one_fast_run_is_not_taken_for_the_slow_one_beside_it() -> None:
    """After a bisect: n5 ran beside the slow n6 until its last run, and looks a little slower by its median."""
    slow = [(("n5", "n6"), 1.060), (("n5", "n6"), 1.061), (("n6", "n7"), 1.048), (("n6", "n7"), 1.049)]
    healthy = [((f"n{number}", f"n{number + 1}"), 1.0 + 0.001 * (number % 3)) for number in range(8, 20)]
    seen = [
        Attendance(run=str(number), created=float(number), work="w", hosts=hosts, step_s=step_s)
        for number, (hosts, step_s) in enumerate([*slow, (("n5", "n20"), 1.001), *healthy])
    ]
    of_nodes = speeds(seen)
    assert [host for host, speed in of_nodes.items() if speed.suspect] == ["n6"]
    assert max(of_nodes, key=lambda host: of_nodes[host].slower) == "n6"
