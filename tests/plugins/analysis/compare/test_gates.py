"""Comparisons of profiled runs by the metrics of their profilers."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from llmbx.errors import UsageError
from llmbx.record.folder import Run

from ....run_factory import RunFactory, noise
from .test_compare import Compare, compare, read, verdict_of

__all__ = ["compare"]

Profiled = Callable[..., Run]
GATE = ("--gate", "exposed_communication")


@pytest.mark.parametrize(
    ("exposed", "options", "verdict", "code"),
    [
        (0.18, (), "slower", 3),
        (0.18, ("--tolerance", "10%"), "equivalent", 0),
        (0.12, (), "equivalent", 0),
        (0.02, (), "faster", 0),
    ],
)
def test_exposed_communication_is_compared_as_a_fraction_of_the_step_time(
    profiled: Profiled, compare: Compare, exposed: float, options: tuple[str, ...], verdict: str, code: int
) -> None:
    a, b = profiled(noise(1, 0.1, 5)), profiled(noise(2, exposed, 5))
    done = compare(a.record.run_id, b.record.run_id, *GATE, *options, "--format", "json")
    assert done.exit_code == code
    found = read(done)
    assert (found["verdict"], found["gate"]) == (verdict, "exposed_communication")
    assert found["change"]["low"] < exposed - 0.1 < found["change"]["high"]
    first = found["metrics"][0]
    assert first["name"] == "exposed_communication"
    assert (first["a"], first["b"]) == (pytest.approx(0.1, rel=0.02), pytest.approx(exposed, rel=0.02))


def test_the_verdict_has_a_reason(profiled: Profiled, compare: Compare) -> None:
    a, b = profiled([0.1] * 5), profiled([0.2] * 5)
    text = verdict_of(compare(a.record.run_id, b.record.run_id, *GATE))
    assert text.startswith("slower: exposed communication is higher by 10.0 % of the step time (95 % interval")


def test_zero_on_one_side_is_a_valid_value(profiled: Profiled, compare: Compare) -> None:
    a, b = profiled([0.0] * 5), profiled([0.2] * 5)
    assert compare(a.record.run_id, b.record.run_id, *GATE).exit_code == 3
    assert verdict_of(compare(b.record.run_id, a.record.run_id, *GATE)).startswith("faster")


def test_a_metric_that_is_not_part_of_a_step_is_compared_relative_to_itself(
    profiled: Profiled, compare: Compare
) -> None:
    a, b = profiled([100.0] * 5, step_s=None), profiled([104.0] * 5, step_s=None)
    found = read(compare(a.record.run_id, b.record.run_id, *GATE, "--format", "json"))
    assert found["change"]["fraction"] == pytest.approx(0.04)


def test_runs_that_are_not_comparable_are_rejected(
    profiled: Profiled, run_factory: RunFactory, compare: Compare
) -> None:
    a, plain, other = profiled([0.1] * 5), run_factory.put(noise(3, 1.0)), profiled([0.1] * 5, global_batch_size=128)
    names = [run.record.run_id for run in (a, plain, other)]
    with pytest.raises(UsageError, match=r"has no such metric \(known: step_time\)"):
        compare(names[0], names[1], *GATE)
    with pytest.raises(UsageError, match="did you mean 'exposed_communication'"):
        compare(names[0], names[2], "--gate", "exposed_comunication")
    assert "global batch size differs" in verdict_of(compare(names[0], names[2], *GATE))
    with pytest.raises(UsageError, match="only step times are published"):
        compare(names[0], "--reference", *GATE)
    assert "was profiled" in verdict_of(compare(names[0], names[1]))
    with pytest.raises(UsageError, match="is 0 in A, so there is no relative change"):
        zero = profiled([0.0] * 5, step_s=None)
        compare(zero.record.run_id, names[0], *GATE)


def test_repeats_count_as_runs(profiled: Profiled, compare: Compare) -> None:
    a = [profiled(noise(seed, 0.1, 5), tags=("base",)) for seed in range(3)]
    b = profiled(noise(9, 0.2, 5))
    found = json.loads(compare(b.record.run_id, "--baseline", "base", *GATE, "--format", "json").stdout)
    assert found["verdict"] == "slower" and found["change"]["over"] == "repeats" and len(found["a"]["runs"]) == len(a)
