"""Comparisons on one machine: what its earlier runs say, what the data can show, and medians of small runs."""

from __future__ import annotations

from typing import Any

import pytest

from llmbx.model import RunSpec

from ....run_factory import RunFactory, noise
from .test_compare import Compare, compare, read, verdict_of

__all__ = ["compare"]

ONE_GPU = {"gpus": 1, "gpus_per_node": 1}


def slow(seed: int, mean: float, *numbers: int) -> list[float]:
    """The times of a steady run, except for these steps, which take ten times as long."""
    times = noise(seed, mean)
    for number in numbers:
        times[number] *= 10
    return times


def compared(factory: RunFactory, compare: Compare, a: list[float], b: list[float], **changes: Any) -> Any:
    sides = [factory.put(times, **changes).record.run_id for times in (a, b)]
    return read(compare(*sides, "--format", "json"))


@pytest.mark.parametrize(("mean", "verdict"), [(1.0, "equivalent"), (1.1, "slower"), (0.9, "faster")])
@pytest.mark.parametrize("changes", [ONE_GPU, {"mini": True, "size": "mini"}])
def test_single_steps_of_a_small_run_do_not_decide(
    run_factory: RunFactory, compare: Compare, mean: float, verdict: str, changes: dict[str, Any]
) -> None:
    found = compared(run_factory, compare, slow(1, 1.0, 20), slow(2, mean, 15, 30), **changes)
    assert found["verdict"] == verdict and found["reason"].startswith("by the medians, since ")
    assert found["a"]["step_time_s"]["method"] == "median"
    assert found["a"]["step_time_s"]["mean"] == pytest.approx(1.0, abs=0.005), "not 1.26, its mean"


def test_runs_on_a_cpu_need_repeats(run_factory: RunFactory, compare: Compare) -> None:
    """What was published of the variation from run to run is of GPUs: two equal runs on a busy CPU differ by 10 %."""
    changes = {"mini": True, "size": "mini", "gpu_type": "cpu", **ONE_GPU}
    found = compared(run_factory, compare, noise(1, 1.0), noise(2, 1.1), **changes)
    assert found["verdict"] == "inconclusive" and "--repeat 3" in found["reason"]
    for seed in range(5):
        run_factory.put(noise(seed, 1.0 + 0.002 * seed), env={"OMP_NUM_THREADS": "2"}, **changes)
    assert compared(run_factory, compare, noise(1, 1.0), noise(2, 1.3), **changes)["verdict"] == "slower"


def test_many_slow_steps_are_not_chance(run_factory: RunFactory, compare: Compare) -> None:
    steady, disturbed = (noise(seed, 1.0, count=120) for seed in (1, 2))
    for number in range(12, 120, 10):
        disturbed[number] *= 10
    found = compared(run_factory, compare, steady, disturbed, **ONE_GPU, steps=120, window="11-119")
    assert found["verdict"] == "inconclusive" and "A has 0 slow steps of 109, B 11 of 109" in found["reason"]


def test_slow_steps_of_several_gpus_are_part_of_the_work(run_factory: RunFactory, compare: Compare) -> None:
    found = compared(run_factory, compare, noise(1, 1.0), slow(2, 1.0, 20))
    assert found["verdict"] == "inconclusive" and "unstable" in found["reason"]


def test_a_drift_is_no_matter_of_single_steps(run_factory: RunFactory, compare: Compare) -> None:
    drifting = [time * (1 + number / 500) for number, time in enumerate(noise(2, 1.0))]
    found = compared(run_factory, compare, slow(1, 1.0, 20), drifting, **ONE_GPU)
    assert found["verdict"] == "inconclusive" and "drifting" in found["reason"]


def spread_and_verdict(factory: RunFactory, compare: Compare, **changes: Any) -> tuple[int, str]:
    """How many earlier runs a comparison of 1.0 s with 1.06 s used, and its verdict."""
    change = compared(factory, compare, noise(101, 1.0), noise(102, 1.065), **changes)
    return change["change"]["prior_runs"], change["verdict"]


MEANS = (1.0, 1.03, 0.98, 1.02, 0.97)
"""The means of the repeats of a machine that varies more than those of published repeats."""


def test_the_variation_is_that_of_earlier_repeats_on_this_machine(run_factory: RunFactory, compare: Compare) -> None:
    assert spread_and_verdict(run_factory, compare) == (0, "slower"), "published repeats vary less than 1 %"
    for seed, mean in enumerate(MEANS):
        run_factory.put(noise(seed, mean), env={"NCCL_ALGO": "Ring"})
    assert spread_and_verdict(run_factory, compare) == (7, "inconclusive"), "with the two that were compared before"


@pytest.mark.parametrize(
    ("stored", "changes"),
    [
        ({"record": {"host": {"hostname": "node2"}}}, {}),
        ({"valid": False}, {}),
        ({"result": {"profiled": True}}, {}),
        ({}, {"global_batch_size": 32}),
        ({}, {"dtype": "fp8"}),
    ],
    ids=["another machine", "no valid data", "profiled", "another batch", "another dtype"],
)
def test_other_runs_tell_nothing(
    run_factory: RunFactory, compare: Compare, stored: dict[str, Any], changes: dict[str, Any]
) -> None:
    for seed, mean in enumerate(MEANS):
        run_factory.put(noise(seed, mean), **stored, **changes)
    assert spread_and_verdict(run_factory, compare) == (0, "slower")


def test_a_change_of_the_configuration_is_no_variation(run_factory: RunFactory, compare: Compare) -> None:
    for number, mean in enumerate(MEANS):
        run_factory.put(noise(number, mean), env={"NCCL_NCHANNELS": str(number)})
    assert spread_and_verdict(run_factory, compare) == (0, "slower")


def test_the_verdict_says_which_variation_was_used(run_factory: RunFactory, compare: Compare, spec: RunSpec) -> None:
    for seed, mean in enumerate(MEANS):
        run_factory.put(noise(seed, mean), env={"NCCL_ALGO": "Ring"})
    a, b = (run_factory.put(noise(seed, 1.0)).record.run_id for seed in (101, 102))
    done = compare(a, b)
    assert "that of 5 earlier repeats of this work on this machine" in " ".join(done.stdout.split()), verdict_of(done)


def test_the_output_says_which_difference_the_data_can_show(run_factory: RunFactory, compare: Compare) -> None:
    a, b = (run_factory.put(noise(seed, mean)).record.run_id for seed, mean in ((1, 1.0), (2, 1.02)))
    done = compare(a, b)
    assert verdict_of(done).startswith("equivalent") and done.exit_code == 0
    shows = "this data shows differences from 1.5 % on (in 8 of 10 cases); 1 % takes 4 runs a side (--repeat 4)"
    assert shows in " ".join(done.stdout.split())
    detectable = read(compare(a, b, "--format", "json"))["detectable"]
    assert detectable["fraction"] == pytest.approx(0.015, abs=0.0005) and detectable["runs"]["1%"] == 4


@pytest.mark.parametrize(("detect", "code"), [("2%", 0), ("1%", 5)])
def test_a_verdict_may_be_required_to_show_a_difference(
    run_factory: RunFactory, compare: Compare, detect: str, code: int
) -> None:
    a, b = (run_factory.put(noise(seed, 1.0)).record.run_id for seed in (1, 2))
    done = compare(a, b, "--detect", detect)
    assert done.exit_code == code
    assert ("would not show a difference of 1 %" in verdict_of(done)) == (code == 5)


def test_a_slower_run_stays_slower_whatever_else_would_not_show(run_factory: RunFactory, compare: Compare) -> None:
    a, b = (run_factory.put(noise(seed, mean)).record.run_id for seed, mean in ((1, 1.0), (2, 1.2)))
    assert compare(a, b, "--detect", "0.1%").exit_code == 3


def test_repeats_show_smaller_differences(run_factory: RunFactory, compare: Compare) -> None:
    for side, first in (("one", 0), ("two", 10)):
        for seed in range(first, first + 5):
            last = run_factory.put(noise(seed, 1 + 0.001 * (seed % 3)), record={"group": side}).record.run_id
        if side == "one":
            a = last
    found = read(compare(a, last, "--format", "json"))
    assert found["detectable"]["fraction"] < 0.003 and found["change"]["over"] == "repeats"
